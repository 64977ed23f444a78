// Writes a simple page. It has the styles of the report's page, but no
// navigation and no buttons for modes:
//
//   <style>page.css</style> <header> title </header> <main> sections </main>
#include "emit/report/sheet.h"

#include <cstdint>

#include "emit/report/embedded.h"
#include "source/digest.h"

namespace shardc::report {
namespace {

int Nibble(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

// The fill pattern `h` is for replicated parts in a treemap, and `g` for
// replicated arrays and for bubbles.
constexpr std::string_view kPatterns =
    "<svg class=v width=1 height=1 aria-hidden=true focusable=false><defs>"
    "<pattern id=h width=7 height=7 patternUnits=userSpaceOnUse "
    "patternTransform=\"rotate(45)\"><rect class=h0 width=7 height=7 />"
    "<path class=h1 d=\"M0 0V7\"/></pattern>"
    "<pattern id=g width=7 height=7 patternUnits=userSpaceOnUse "
    "patternTransform=\"rotate(45)\"><rect class=back width=7 height=7 />"
    "<path class=gl d=\"M0 0V7\"/></pattern></defs></svg>\n";

}  // namespace

std::string_view PageFile(std::string_view name) {
  for (const EmbeddedFile& file : EmbeddedPage()) {
    if (file.name == name) return file.text;
  }
  return {};
}

std::string PolicyHash(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string hex = Sha256(text);
  std::string out = "sha256-";
  uint32_t bits = 0;
  int count = 0;
  for (char digit : hex) {
    bits = (bits & 63) << 4 | static_cast<uint32_t>(Nibble(digit));
    count += 4;
    if (count < 6) continue;
    count -= 6;
    out += kDigits[bits >> count & 63];
  }
  // Write the last digit. 256 bits are 42 base64 digits of 6 bits, and 4 bits
  // remain.
  out += kDigits[(bits & 63) << (6 - count) & 63];
  return out + "=";
}

std::string_view FillPatterns() { return kPatterns; }

void WriteSheet(std::string_view title, std::string_view subtitle,
                const std::function<void(Html&)>& body, Sink& out) {
  Html html(out);
  const std::string_view css = PageFile("page.css");
  html.Raw("<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n");
  html.Raw(
      "<meta http-equiv=Content-Security-Policy content=\"default-src "
      "'none'; style-src '");
  html.Raw(PolicyHash(css));
  html.Raw("'; base-uri 'none'; form-action 'none'\">\n");
  html.Raw(
      "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n"
      "<meta name=referrer content=no-referrer>\n<title>");
  html.Text(title).Raw("</title>\n<style>").Raw(css);
  html.Raw("</style>\n</head>\n<body>\n");
  html.Raw("<a class=skip href=\"#main\">To the content</a>\n");
  html.Raw(kPatterns);
  html.Raw("<header class=w><h1>").Text(title).Raw("</h1><p class=q>");
  html.Text(subtitle).Raw("</p></header>\n<main class=w id=main>\n");
  body(html);
  html.Raw("</main>\n</body>\n</html>\n");
}

}  // namespace shardc::report
