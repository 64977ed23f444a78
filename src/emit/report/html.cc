// Escapes the characters that have a meaning in HTML. Invisible characters are
// made visible first, because some of them would reorder the text of the page:
//
//   </script> and the character U+202E  ->  &lt;/script&gt;\u202e
#include "emit/report/html.h"

#include <array>
#include <cstdio>

#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::report {
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

}  // namespace shardc::report
