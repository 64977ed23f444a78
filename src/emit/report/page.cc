// Writes the HTML page of a plan. If the page is too large, it is written again
// with half as many rows, figures and other items, at most seven times. The
// page allows no other style sheet and no other script than its own, which are
// the same for every plan. Its content security policy therefore names their
// hashes:
//
//   default-src 'none'; style-src 'sha256-...'; script-src 'sha256-...'
#include "emit/report/page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>

#include "emit/costs/cost_report.h"
#include "emit/findings/formats.h"
#include "emit/report/report.h"
#include "model/mesh.h"
#include "model/mesh_layout.h"
#include "picture/array.h"
#include "plan/difference/plan_difference.h"
#include "source/digest.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/sink.h"
#include "source/size.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::report {
namespace {

struct Section {
  std::string_view id, title;
  void (*write)(Page& page);
};
// What needs a reader comes first: mistakes, changes, and what is not known.
// These sections and the one about memory are open, and the others are folded.
constexpr Section kSections[] = {
    {"findings", "Findings", WriteFindings},
    {"changes", "Changes", WriteChanges},
    {"unknown", "Not known", WriteUnknown},
    {"memory", "Memory", WriteMemory},
    {"time", "Time", WriteTime},
    {"communication", "Communication", WriteCommunication},
    {"program", "Compiled program", WriteProgram},
    {"parameters", "Parameters", WriteParameters},
    {"layouts", "Layouts", WriteLayouts},
    {"rules", "Rules", WriteRules},
    {"attention", "Attention", WriteAttention},
    {"mesh", "Mesh", WriteMesh},
    {"pipeline", "Pipeline", WritePipeline},
    {"verified", "Verified", WriteTables},
    {"assumptions", "Assumptions", WriteAssumptions},
};

// Returns the sections in their order on the page. Memory that does not suffice
// comes first: nothing below it matters until the plan fits.
std::vector<Section> OrderedSections(const Input& input) {
  std::vector<Section> out(std::begin(kSections), std::end(kSections));
  const bool over = std::any_of(
      input.costs.begin(), input.costs.end(), [](const cost::Report& one) {
        return one.memory.Verdict() == cost::Fit::kExceeds;
      });
  if (!over) return out;
  const auto memory =
      std::find_if(out.begin(), out.end(),
                   [](const Section& one) { return one.id == "memory"; });
  std::rotate(out.begin(), memory, memory + 1);
  return out;
}

void WriteNav(Page& page, const std::vector<Section>& there) {
  Html& html = page.html;
  html.Raw("<nav aria-label=Sections><div class=w><ul>");
  for (const Section& section : there) {
    html.Raw("<li><a href=\"#").Raw(section.id).Raw("\">");
    html.Raw(section.title).Raw("</a></li>");
  }
  html.Raw(
      "</ul><button type=button class=\"js all\" id=all>Open all</button>");
  if (page.groups.size() == 1) {
    html.Raw("<span class=q>the same in all modes</span>");
  } else {
    html.Raw("<fieldset class=pick><legend class=v>Mode</legend>");
    for (size_t i = 0; i < page.groups.size(); ++i) {
      const std::string id = "m" + std::to_string(i);
      html.Raw("<input type=radio name=mode id=" + id +
               (i == 0 ? " checked" : "") + "><label for=" + id + ">");
      page.Modes(page.groups[i]);
      html.Raw("</label>");
    }
    html.Raw("</fieldset>");
  }
  html.Raw("</div></nav>\n");
}

void WriteFooter(Page& page, bool cut) {
  Html& html = page.html;
  html.Raw("<footer><div class=w><p>Made by <code>shardc report</code> ");
  html.Text(page.in.version);
  if (!page.in.made_from.empty()) {
    html.Raw(" of <code>").Name(page.in.made_from).Raw("</code>");
  }
  html.Raw(
      ". The page loads nothing and sends nothing; the same inputs make the "
      "same bytes. Sizes are of the fullest device.</p>");
  if (cut) {
    html.Raw(
        "<p>The page was shortened to stay small: tables and figures state "
        "what they leave out.</p>");
  }
  html.Raw("<p>Fingerprint <code>");
  html.Text(page.plan().table().classes.fingerprint);
  html.Raw("</code></p></div></footer>\n");
}

// Writes what precedes the content of every page: the policy, the style sheet
// and the patterns of the drawings.
void BeginDocument(Html& html, std::string_view title) {
  const std::string_view css = PageFile("page.css"), js = PageFile("page.js");
  html.Raw("<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n");
  html.Raw(
      "<meta http-equiv=Content-Security-Policy content=\"default-src "
      "'none'; style-src '");
  html.Raw(PolicyHash(css)).Raw("'; script-src '").Raw(PolicyHash(js));
  html.Raw("'; base-uri 'none'; form-action 'none'\">\n");
  html.Raw(
      "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n"
      "<meta name=referrer content=no-referrer>\n<title>");
  html.Text(title).Raw("</title>\n<style>").Raw(css);
  html.Raw("</style>\n</head>\n<body>\n");
  html.Raw("<a class=skip href=\"#main\">To the content</a>\n");
  html.Raw(FillPatterns());
}

void EndDocument(Html& html) {
  html.Raw("<script>").Raw(PageFile("page.js"));
  html.Raw("</script>\n</body>\n</html>\n");
}

void WriteSections(const Input& input, const Limits& limits, bool cut,
                   Sink& out) {
  Page page(input, limits, out);
  Html& html = page.html;
  BeginDocument(html, input.title);
  PlanFigures(page);
  WriteHeader(page);
  // The sections are written before the navigation, because the navigation
  // lists only the sections that have content.
  std::vector<Section> there;
  std::vector<std::string> texts;
  for (const Section& section : OrderedSections(input)) {
    texts.push_back(TextOf([&](Sink& sink) {
      Page inner(input, limits, sink);
      inner.figures = page.figures;
      section.write(inner);
    }));
    if (!texts.back().empty()) there.push_back(section);
  }
  WriteNav(page, there);
  html.Raw("<main class=w id=main>\n");
  for (const std::string& text : texts) html.Raw(text);
  html.Raw("</main>\n");
  WriteFooter(page, cut);
  EndDocument(html);
}

}  // namespace

Page::Page(const Input& input, const Limits& most, Sink& out)
    : in(input),
      limits(most),
      html(out),
      groups(picture::ModeGroups(input.plan->table().classes)),
      colors_(picture::AxisColorsOf(input.plan->mesh())) {}

std::string Page::AxisClass(std::string_view axis) const {
  const auto at = mesh().Find(WholeAxis(axis));
  return "a" + std::to_string(at ? colors_[*at] : picture::kAxisColors - 1);
}

void Page::PutAxes(const AxisGroup& written, Html& to) const {
  const AxisGroup axes = JoinedGroup(written);
  for (size_t i = 0; i < axes.size(); ++i) {
    to.Raw(i > 0 ? ", " : "").Raw("<span class=\"x " + AxisClass(axes[i]));
    to.Raw("\">").Name(axes[i]).Raw("</span>");
  }
}

void Page::PutGroup(const AxisGroup& written, Html& to) const {
  const AxisGroup axes = JoinedGroup(written);
  if (axes.empty()) to.Raw("<span class=q>null</span>");
  if (axes.size() > 1) to.Raw("[");
  PutAxes(axes, to);
  if (axes.size() > 1) to.Raw("]");
}

void Page::PutSpec(const Spec& spec, Html& to) const {
  to.Raw("<code>[");
  for (size_t i = 0; i < spec.size(); ++i) {
    if (i > 0) to.Raw(", ");
    PutGroup(spec[i], to);
  }
  to.Raw("]</code>");
}

void Page::Axis(std::string_view axis) { PutAxes({std::string(axis)}, html); }
void Page::Axes(const AxisGroup& axes) { PutAxes(axes, html); }
void Page::Group(const AxisGroup& axes) { PutGroup(axes, html); }
void Page::SpecOf(const Spec& spec) { PutSpec(spec, html); }

std::string Page::SpecMarkup(const Spec& spec) const {
  return TextOf([&](Sink& sink) {
    Html to(sink);
    PutSpec(spec, to);
  });
}

void Page::Modes(const std::vector<Mode>& modes) { html.Raw(ModesText(modes)); }

void Page::Begin(std::string_view id, std::string_view title) {
  html.Raw("<section id=").Raw(id).Raw(" aria-labelledby=h-").Raw(id);
  html.Raw("><h2 id=h-").Raw(id).Raw(">").Raw(title).Raw("</h2>\n");
  folded_ = false;
}

void BeginFold(Html& html, std::string_view id, std::string_view title,
               const std::function<void()>& summary) {
  html.Raw("<section id=").Raw(id).Raw(" class=fold aria-labelledby=h-");
  html.Raw(id).Raw("><details><summary><h2 id=h-").Raw(id).Raw(">");
  html.Raw(title).Raw("</h2> <span class=q>");
  summary();
  html.Raw("</span></summary>\n");
}

void EndFold(Html& html) { html.Raw("</details></section>\n"); }

void Page::BeginFolded(std::string_view id, std::string_view title,
                       const std::function<void()>& summary) {
  BeginFold(html, id, title, summary);
  folded_ = true;
}

void Page::End() {
  if (folded_) return EndFold(html);
  html.Raw("</section>\n");
}

std::string Page::ModeClass(size_t group) {
  return "m m" + std::to_string(group) + "s";
}

void Page::Vary(const std::vector<std::string>& texts) {
  const bool same = std::all_of(
      texts.begin(), texts.end(),
      [&](const std::string& text) { return text == texts.front(); });
  if (same) {
    html.Raw(texts.front());
    return;
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    html.Raw("<span class=\"" + ModeClass(i) + "\">").Raw(texts[i]);
    html.Raw("</span>");
  }
}

std::string ModesText(const std::vector<Mode>& modes) {
  return Join(modes, ", ", ModeName);
}

std::string NameOf(const cost::Report& report) {
  return report.ranks.empty() ? std::string(ModeName(report.mode))
                              : report.ranks;
}

std::string FigureKey(const picture::FoldedPlan& plan,
                      const picture::ParamGroup& group, Mode mode) {
  const Spec spec = plan.SpecOf(group, mode);
  if (group.placed_along.empty() && plan.IsReplicated(group, mode))
    return "replicated";
  return SpecText(spec) + InPartsText(plan.PartsOf(group, mode)) + " " +
         group.placed_along;
}

void BeginTable(Html& html, std::string_view label, std::string_view look,
                const std::vector<Head>& heads, std::string_view id) {
  html.Raw("<div class=s tabindex=0 role=group aria-label=\"").Text(label);
  html.Raw("\"><table");
  if (!look.empty()) html.Raw(" class=\"").Raw(look).Raw("\"");
  html.Raw("><thead><tr>");
  for (const Head& head : heads) {
    if (head.name.empty()) {
      html.Raw("<td></td>");
      continue;
    }
    html.Raw(head.number ? "<th scope=col class=r>" : "<th scope=col>");
    html.Text(head.name).Raw("</th>");
  }
  html.Raw("</tr></thead><tbody");
  if (!id.empty()) html.Raw(" id=").Raw(id);
  html.Raw(">\n");
}

void EndTable(Html& html) { html.Raw("</tbody></table></div>\n"); }

Html& BeginNamedCell(Html& html, const Head& column) {
  html.Raw(column.number ? "<td class=r data-m=\"" : "<td data-m=\"");
  return html.Text(column.name).Raw("\">");
}

void WriteMore(Html& html, size_t shown, size_t all, std::string_view what) {
  if (shown >= all) return;
  html.Raw("<p class=q>and " +
           Counted(static_cast<int64_t>(all - shown), what) + ".</p>\n");
}

void RoundShare(Html& html, double part, double sum) {
  const double percent = sum > 0 ? 100 * part / sum : 0;
  if (percent > 0 && percent < 0.5) {
    html.Raw("&lt;1");
  } else {
    html.Number(std::llround(percent));
  }
  html.Raw("\u00a0%");
}

void Bar(Html& html, int64_t part, int64_t whole, std::string_view look) {
  const double share =
      whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole)
                : 0;
  html.Raw(
      "<svg aria-hidden=true><rect class=track width=\"100%\" "
      "height=7 />");
  if (part > 0) {
    html.Raw("<rect class=").Raw(look).Raw(" width=\"");
    html.Fixed(std::max(share, 0.8)).Raw("%\" height=7 />");
  }
  html.Raw("</svg>");
}

std::string ReportHtml(const Input& input) {
  Limits limits;
  std::string out;
  bool cut = false;
  for (int halved = 0; halved < 8; ++halved) {
    out = TextOf([&](Sink& sink) { WriteSections(input, limits, cut, sink); });
    if (out.size() < kMostBytes) break;
    limits = limits.Half();
    cut = true;
  }
  return out;
}

// Escapes the characters that have a meaning in HTML. Invisible characters are
// made visible first, because some of them would reorder the text of the page:
//
//   </script> and the character U+202E  ->  &lt;/script&gt;\u202e

namespace {

// The largest number of bytes of a name that the page shows.
constexpr size_t kLongest = 400;

// Returns the longest beginning of the text with at most `most` bytes that does
// not end inside a character.
std::string_view Beginning(std::string_view text, size_t most) {
  size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = DecodeUtf8(text, at);
    const size_t next = at + (point.length == 0 ? 1 : point.length);
    if (next > most) break;
    at = next;
  }
  return text.substr(0, at);
}

}  // namespace

void Html::Escape(std::string_view text, bool breaks) {
  for (char c : text) {
    switch (c) {
      case '&':
        out_.Append("&amp;");
        break;
      case '<':
        out_.Append("&lt;");
        break;
      case '>':
        out_.Append("&gt;");
        break;
      case '"':
        out_.Append("&quot;");
        break;
      case '\'':
        out_.Append("&#39;");
        break;
      default:
        out_.Put(c);
        if (breaks && (c == '.' || c == '/')) out_.Append("<wbr>");
    }
  }
}

Html& Html::Raw(std::string_view markup) {
  out_.Append(markup);
  return *this;
}

Html& Html::Text(std::string_view text) {
  Escape(Printable(text), false);
  return *this;
}

Html& Html::Name(std::string_view text) {
  const std::string_view shown = Beginning(text, kLongest);
  Escape(Printable(shown), true);
  if (shown.size() < text.size()) {
    Raw("… (").Count(static_cast<int64_t>(text.size())).Raw(" bytes)");
  }
  return *this;
}

Html& Html::Message(std::string_view text) {
  bool code = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('`', begin), text.size());
    // A backtick without a second backtick after it is part of the text.
    const bool closes = code || text.find('`', end + 1) != std::string::npos;
    const std::string_view part = text.substr(begin, end - begin);
    if (code) {
      Raw("<code>").Name(part).Raw("</code>");
    } else {
      Text(Beginning(part, 4 * kLongest));
    }
    if (end < text.size()) {
      if (closes) {
        code = !code;
      } else {
        Raw("`");
      }
    }
    begin = end + 1;
  }
  return *this;
}

Html& Html::Bytes(int64_t bytes) {
  std::string text = BytesText(bytes);
  const size_t space = text.find(' ');
  if (space != std::string::npos) text.replace(space, 1, "\u00a0");
  return Raw(text);
}

Html& Html::Bytes(const std::optional<int64_t>& bytes) {
  return bytes ? Bytes(*bytes) : Raw("–");
}

Html& Html::Count(int64_t count) { return Raw(CountText(count)); }
Html& Html::Number(int64_t number) { return Raw(std::to_string(number)); }

Html& Html::Fixed(double number) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.2f", number);
  std::string_view text = buffer.data();
  while (text.ends_with('0')) text.remove_suffix(1);
  if (text.ends_with('.')) text.remove_suffix(1);
  return Raw(text == "-0" ? "0" : text);
}

// Writes a simple page. It has the styles of the report's page, but no
// navigation and no buttons for modes:
//
//   <style>page.css</style> <header> title </header> <main> sections </main>

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
  BeginDocument(html, title);
  html.Raw("<header class=w><h1>").Text(title).Raw("</h1><p class=q>");
  html.Text(subtitle).Raw("</p></header>\n<main class=w id=main>\n");
  body(html);
  html.Raw("</main>\n");
  EndDocument(html);
}

namespace {

// Writes what a page shows as JSON (shardc.report/v1), for a script that
// comments on a change or draws its own page: the costs of each mode as `shardc
// cost` has them, findings as `shardc check` has them, and whether the plan is
// the same as the base plan. For example:
//
//   {"schema": "shardc.report/v1", "title": "llama", "fits": true,
//    "costs": [{"mode": "train", ...}], "findings": [...], "base": null}

// Returns whether a device can hold each mode; nullopt if that is not known of
// a mode, and of those that are known all fit.
std::optional<bool> FitsAll(const Input& input) {
  std::optional<bool> out = true;
  for (const cost::Report& one : input.costs) {
    const auto fits = one.memory.Fits();
    if (fits == false) return false;
    if (!fits) out.reset();
  }
  return input.costs.empty() ? std::nullopt : out;
}

}  // namespace

void WriteReportJson(const Input& input, Sink& out) {
  WriteDocument(out, "shardc.report/v1", [&](JsonWriter& json) {
    json.Members(
        "title", input.title, "plan", TextOrNull(input.made_from), "mesh",
        WrittenBy(shardc::WriteMesh, input.plan->mesh(), MeshDetail::kSizes),
        "fits", FitsAll(input), "failures", input.failures);
    json.Array("costs", input.costs, [&](const cost::Report& one) {
      json.BeginObject(JsonLayout::kLines);
      WriteCostMembers(json, one);
      json.EndObject();
    });
    json.Key("findings");
    if (input.checked) {
      WriteFindings(json, input.findings);
    } else {
      json.Null();
    }
    json.Key("base");
    if (input.base) {
      json.Value(
          Record("plan", input.base->name, "same", input.base->diff->empty()));
    } else {
      json.Null();
    }
  });
}

}  // namespace shardc::report
