// Finds where the tokens of a YAML text begin and end, and reports YAML syntax
// errors at their likely cause, which is often before the position where the
// parser stopped.
//
// Finds the ends of tokens in a YAML text. The beginning of a token is known
// from yaml-cpp. The end of a quoted scalar is found by scanning for the
// closing quote. The end of a plain scalar is found by comparing the text,
// character by character, with the value that yaml-cpp has reported. The two
// differ only in blanks, because line breaks are folded. For example:
//
//   'it''s' # x   is quoted, and extends from byte 0 to 7
//   a\n  b        is plain with the value `a b`, and extends from 0 to 5
#include "yaml/scan.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "source/encoding.h"
#include "source/file.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool IsBreak(char c) { return c == '\n' || c == '\r'; }

char At(std::string_view text, size_t at) {
  return at < text.size() ? text[at] : '\0';
}

bool IsIndicator(char c) {
  return c == ',' || c == '[' || c == ']' || c == '{' || c == '}';
}

// Returns whether the byte at `at` ends a plain word.
bool EndsWord(std::string_view text, size_t at) {
  const char c = At(text, at);
  return at >= text.size() || IsBlank(c) || IsBreak(c) || IsIndicator(c) ||
         (c == ':' && (at + 1 >= text.size() || IsBlank(text[at + 1]) ||
                       IsBreak(text[at + 1]) || IsIndicator(text[at + 1])));
}

// Returns whether a C1 control character, which has two bytes in UTF-8, is at
// `at`. NEL (U+0085) is excepted, because YAML allows it.
bool IsC1(std::string_view text, size_t at) {
  if (static_cast<unsigned char>(text[at]) != 0xc2) return false;
  const auto next = static_cast<unsigned char>(At(text, at + 1));
  return next >= 0x80 && next < 0xa0 && next != 0x85;
}

}  // namespace

size_t OddBlank(std::string_view text, size_t at) {
  // The UTF-8 bytes of the no-break space, the zero-width space, the
  // ideographic space and the byte order mark.
  constexpr std::array<std::string_view, 4> kBlanks = {
      "\xc2\xa0", "\xe2\x80\x8b", "\xe3\x80\x80", "\xef\xbb\xbf"};
  for (std::string_view blank : kBlanks) {
    if (text.substr(std::min(at, text.size()), blank.size()) == blank) {
      return blank.size();
    }
  }
  return 0;
}

size_t LineBegin(std::string_view text, size_t at) {
  at = std::min(at, text.size());
  while (at > 0 && !IsBreak(text[at - 1])) --at;
  return at;
}

std::string_view HelpForOtherSyntax(std::string_view text, size_t at) {
  const size_t begin = LineBegin(text, at);
  const std::string_view line =
      text.substr(begin, LineEnd(text, begin) - begin);
  const auto has = [&](std::string_view words) {
    return line.find(words) != line.npos;
  };
  if (has("PartitionSpec(") || has(" P(")) {
    return "a spec is a list with an entry for each dimension: write "
           "`spec: [fsdp, null]`";
  }
  if (has("('") || has("(\"")) {
    return "write each pair as a rule: `- {match: 'PATTERN', spec: [fsdp, "
           "tp]}`";
  }
  if (has(" //")) return "a comment begins with `#`";
  return {};
}

size_t LineEnd(std::string_view text, size_t at) {
  while (at < text.size() && !IsBreak(text[at])) ++at;
  return at;
}

std::optional<TextFault> FindTextFault(std::string_view text) {
  if (LooksLikeUtf16(text)) {
    return TextFault{0, std::string(kUtf16Message), std::string(kUtf8Help)};
  }
  size_t bad = text.size();
  const bool utf8 = IsUtf8(text, &bad);
  if (utf8) bad = text.size();
  for (size_t at = 0; at < bad; ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x20 && byte != 0x7f && !IsC1(text, at)) continue;
    if (byte == '\t' || byte == '\n') continue;
    if (byte == '\r') {
      // Refuse a lone CR, which is a line break for some readers of YAML and
      // not for others.
      if (At(text, at + 1) == '\n') continue;
      return TextFault{at, "a carriage return without a line feed",
                       "end lines with a line feed"};
    }
    if (byte == 0xc2) {
      return TextFault{at,
                       "control character " +
                           HexByte(static_cast<unsigned char>(text[at + 1])) +
                           " in the text",
                       "remove it, or is this a binary file?"};
    }
    return TextFault{at, "control character " + HexByte(byte) + " in the text",
                     "remove it, or is this a binary file?"};
  }
  if (!utf8) {
    return TextFault{bad,
                     "byte " + HexByte(static_cast<unsigned char>(text[bad])) +
                         " is not UTF-8",
                     "save the file as UTF-8"};
  }
  return std::nullopt;
}

size_t SkipBlank(std::string_view text, size_t at) {
  while (at < text.size()) {
    const char c = text[at];
    if (IsBlank(c) || IsBreak(c)) {
      ++at;
    } else if (c == '#' &&
               (at == 0 || IsBlank(text[at - 1]) || IsBreak(text[at - 1]) ||
                IsIndicator(text[at - 1]))) {
      at = LineEnd(text, at);
    } else {
      break;
    }
  }
  return at;
}

size_t SkipEmptyDocument(std::string_view text, size_t at) {
  for (;;) {
    at = SkipBlank(text, at);
    const std::string_view word = text.substr(std::min(at, text.size()), 3);
    if (word != "---" && word != "...") return at;
    if (ColumnOf(text, at) != 0) return at;
    at += 3;
  }
}

size_t SkipProperties(std::string_view text, size_t at, bool* tagged) {
  *tagged = false;
  while (at < text.size() && (text[at] == '&' || text[at] == '!')) {
    *tagged |= text[at] == '!';
    while (at < text.size() && !IsBlank(text[at]) && !IsBreak(text[at]) &&
           !IsIndicator(text[at])) {
      ++at;
    }
    at = SkipBlank(text, at);
  }
  return at;
}

std::optional<size_t> QuotedEnd(std::string_view text, size_t at) {
  const char quote = At(text, at);
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == quote) {
      if (quote == '\'' && At(text, i + 1) == '\'') {
        ++i;
        continue;
      }
      return i + 1;
    }
    if (quote == '"' && text[i] == '\\') ++i;
  }
  return std::nullopt;
}

std::string SingleQuoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    out += c;
    if (c == '\'') out += c;
  }
  return out + "'";
}

size_t PlainEnd(std::string_view text, size_t at, std::string_view value) {
  size_t i = 0;
  while (i < value.size() && at < text.size()) {
    if (text[at] == value[i]) {
      ++at;
      ++i;
      continue;
    }
    const size_t text_before = at;
    const size_t value_before = i;
    while (at < text.size() && (IsBlank(text[at]) || IsBreak(text[at]))) ++at;
    while (i < value.size() && (value[i] == ' ' || value[i] == '\n')) ++i;
    if (at == text_before && i == value_before) break;
  }
  return at;
}

size_t BlockEnd(std::string_view text, size_t at) {
  size_t end = LineEnd(text, at);
  size_t indent = 0;
  for (size_t line = end; line < text.size();) {
    line += text.substr(line, 2) == "\r\n" ? 2 : 1;
    const size_t line_end = LineEnd(text, line);
    size_t first = line;
    while (first < line_end && text[first] == ' ') ++first;
    if (first < line_end) {
      if (indent == 0) indent = first - line;
      if (indent == 0 || first - line < indent) break;
      end = line_end;
    }
    line = line_end;
  }
  return end;
}

size_t FlowEnd(std::string_view text, size_t at, char bracket) {
  for (;;) {
    at = SkipBlank(text, at);
    if (At(text, at) == bracket) return at + 1;
    // Skip a comma, or the colon of a key without a value.
    if (At(text, at) != ',' && At(text, at) != ':') return at;
    ++at;
  }
}

std::optional<size_t> NullWordEnd(std::string_view text, size_t at) {
  constexpr std::array<std::string_view, 4> kWords = {"~", "null", "Null",
                                                      "NULL"};
  for (std::string_view word : kWords) {
    if (text.substr(std::min(at, text.size()), word.size()) == word &&
        EndsWord(text, at + word.size())) {
      return at + word.size();
    }
  }
  return std::nullopt;
}

std::optional<size_t> FindOpenQuote(std::string_view text, size_t at) {
  while (at < text.size()) {
    at = SkipBlank(text, at);
    if (at >= text.size()) break;
    const char c = text[at];
    if (c == '\'' || c == '"') {
      const auto end = QuotedEnd(text, at);
      if (!end) return at;
      at = *end;
    } else if (IsIndicator(c) || c == ':' || c == '-' || c == '?') {
      ++at;
    } else {
      // Skip a plain word. Quotes inside it are ordinary characters.
      while (at < text.size() && !EndsWord(text, at)) ++at;
    }
  }
  return std::nullopt;
}

// Finds the likely cause of a syntax error. yaml-cpp reports the position where
// it could not continue, which is often far after the mistake. The text from
// the last complete token on is therefore searched for the usual causes. The
// most certain come first: an open quote, an open bracket, a tab or a no-break
// space in the indentation, a line between two indentation levels. If none is
// found, a table gives a message for the reason that yaml-cpp reports. A reason
// that the table lacks is printed as it is. For example:
//
//   a: {b: 1    yaml-cpp reports `end of map flow not found` at the end of the
//               file; the finding is placed at `{`, which is never closed

namespace {

struct Wording {
  std::string_view reason;  // prefix of yaml-cpp's message
  std::string_view message;
  std::string_view help;
};

constexpr std::array<Wording, 16> kWordings = {{
    {"illegal map value", "this `:` follows nothing that can be a key",
     "quote a text that holds `: `, fix the indentation, or end the key above "
     "with `:`"},
    {"illegal map key", "no key can stand here", "fix the indentation"},
    {"illegal block entry", "no list item can stand here",
     "begin the list on a line of its own"},
    {"illegal flow end", "this bracket closes nothing",
     "remove it, or close the bracket that is open before it"},
    {"illegal EOF in scalar", "the file ends inside a string",
     "close the quote"},
    {"illegal document indicator in scalar",
     "a document marker inside a string", "close the quote"},
    {"unknown escape character", "an escape that YAML does not have",
     "put patterns in single quotes: '\\d+'"},
    {"bad character found while scanning hex", "an escape with bad digits",
     "put patterns in single quotes: '\\x2f'"},
    {"invalid unicode", "an escape that is no Unicode character", ""},
    {"the referenced anchor is not defined",
     "this alias refers to no anchor before it",
     "quote a text that begins with `*`"},
    {"alias not found after", "an alias without a name",
     "quote a text that begins with `*`"},
    {"anchor not found after", "an anchor without a name",
     "quote a text that begins with `&`"},
    {"illegal tab", "a tab where indentation is expected",
     "indent with spaces"},
    {"cannot assign multiple", "two anchors or tags on one value", ""},
    {"unexpected character in block scalar",
     "text after the head of a block string",
     "begin the text on the next line"},
    {"cannot set zero indentation", "a block string with indentation 0", ""},
}};

bool IsBlankLineHead(std::string_view text, size_t at) {
  const size_t line = LineBegin(text, at);
  return text.substr(line, at - line).find_first_not_of(" \t") ==
         std::string_view::npos;
}

struct Report {
  const SourceRef& source;
  const YamlFailure& failure;
  Findings& findings;

  void Add(size_t begin, size_t end, std::string message,
           std::string_view help) const {
    const auto other = HelpForOtherSyntax(source->text(), begin);
    findings.Add(code::kYamlSyntax,
                 {source, begin, std::min(end, source->text().size())},
                 std::move(message), std::string(other.empty() ? help : other));
  }

  // Reports a tab or a blank such as a no-break space at the head of a line,
  // where YAML usually does not accept it. Returns false if there is none in
  // the lines from the last complete token to where the parser stopped.
  bool BadIndentation() const {
    const std::string_view text = source->text();
    size_t line = LineBegin(text, std::min(failure.offset, text.size()));
    const size_t first = LineBegin(text, failure.last_end);
    for (;;) {
      size_t at = line;
      while (at < text.size() && text[at] == ' ') ++at;
      if (at < text.size() && text[at] == '\t') {
        Add(at, at + 1, "a tab is used as indentation", "indent with spaces");
        return true;
      }
      if (const size_t blank = OddBlank(text, at); blank > 0) {
        Add(at, at + blank, std::string(kOddBlankMessage), kOddBlankHelp);
        return true;
      }
      if (line <= first || line == 0) return false;
      line = LineBegin(text, line - 1);
    }
  }

  bool OpenQuote() const {
    const std::string_view text = source->text();
    const auto quote =
        FindOpenQuote(text, std::min(failure.last_end, text.size()));
    if (!quote) return false;
    Add(*quote, *quote + 1,
        std::string("the quote `") + text[*quote] + "` is never closed",
        "close it on the same line");
    return true;
  }

  // Returns whether the parser stopped at the dash of the next item of a list
  // because a bracket above has entries and is not closed.
  bool IsItemAfterBracket() const {
    const std::string_view text = source->text();
    if (!failure.open_flow ||
        SkipBlank(text, *failure.open_flow + 1) >= failure.offset) {
      return false;
    }
    const size_t own = LineBegin(text, failure.offset);
    const size_t above = LineBegin(text, *failure.open_flow);
    const auto indent = [&](size_t line) {
      return std::min(text.find_first_not_of(' ', line), text.size()) - line;
    };
    return own > above && own + indent(own) == failure.offset &&
           indent(own) <= indent(above);
  }

  bool OpenBracket(const std::string& reason) const {
    if (reason.starts_with("illegal block entry") && IsItemAfterBracket()) {
      const char open = source->text()[*failure.open_flow];
      Add(*failure.open_flow, *failure.open_flow + 1,
          std::string("the bracket `") + open +
              "` is not closed before the next item",
          std::string("close it with `") + (open == '{' ? "}`" : "]`"));
      return true;
    }
    if (!reason.starts_with("end of map flow") &&
        !reason.starts_with("end of sequence flow")) {
      return false;
    }
    const std::string_view text = source->text();
    const char open = failure.open_flow ? text[*failure.open_flow] : '[';
    const std::string close = open == '{' ? "}" : "]";
    if (SkipBlank(text, failure.offset) >= text.size() && failure.open_flow) {
      Add(*failure.open_flow, *failure.open_flow + 1,
          std::string("the bracket `") + open + "` is never closed",
          "close it with `" + close + "`");
    } else {
      Add(failure.offset, failure.offset + 1,
          "neither `,` nor `" + close + "` before this",
          std::string("separate the entries with commas, or close `") + open +
              "` with `" + close + "` where it ends");
    }
    return true;
  }

  // Reports a missing closing quote, as in `match: 'foo`: the string then
  // extends over several lines to the quote that opens the next pattern.
  // Returns false if the error has another cause.
  bool LongQuote() const {
    if (!failure.long_quote) return false;
    const auto end = QuotedEnd(source->text(), *failure.long_quote);
    if (!end || *end != failure.last_end) return false;
    Add(*failure.long_quote, *failure.long_quote + 1,
        std::string("the quote `") + source->text()[*failure.long_quote] +
            "` is closed on line " + std::to_string(source->At(*end - 1).line) +
            " only",
        "close it on the same line");
    return true;
  }

  // Reports `match:'foo'`, whose colon needs a space after it. The parser takes
  // it for a text, and stops at the next key.
  bool ColonWithoutSpace(const std::string& reason) const {
    if (!reason.starts_with("illegal map value")) return false;
    const std::string_view text = source->text();
    const size_t line = LineBegin(text, failure.offset);
    if (line == 0) return false;
    const size_t above = LineBegin(text, line - 1);
    size_t at = above;
    while (at < line && (text[at] == ' ' || text[at] == '-')) ++at;
    const size_t begin = at;
    while (at < line && IsWordByte(text[at])) ++at;
    const bool is_key = at > begin && at + 1 < line && text[at] == ':';
    if (!is_key || std::string_view("'\"[{").find(text[at + 1]) == text.npos) {
      return false;
    }
    Add(at, at + 1, "a space is missing after `:`",
        "write " +
            ShortQuote(std::string(text.substr(begin, at + 1 - begin)) + " " +
                       std::string(text.substr(at + 1, line - at - 2))));
    return true;
  }

  bool Misplaced(const std::string& reason) const {
    const bool map = reason.starts_with("end of map");
    if (!map && !reason.starts_with("end of sequence")) return false;
    const std::string_view text = source->text();
    const std::string what = map ? "key" : "item";
    if (IsBlankLineHead(text, failure.offset)) {
      Add(failure.offset, failure.offset + 1,
          "this line is neither the next " + what +
              " of what stands above nor inside it",
          "give it the same indentation as the " + what + "s above");
    } else if (!LongQuote()) {
      Add(failure.offset, failure.offset + 1, "text after a whole value",
          "remove it, or quote the whole value");
    }
    return true;
  }
};

}  // namespace

void ReportYamlError(const SourceRef& source, const std::string& reason,
                     const YamlFailure& failure, Findings& findings) {
  const Report report{source, failure, findings};
  const std::string_view text = source->text();
  if (reason.starts_with("bad file")) {
    findings.Add(code::kYamlDepth, {source, failure.offset, failure.offset},
                 "nested too deeply");
    return;
  }
  if (ReportOtherText(source, findings, code::kYamlSyntax)) return;
  if (report.OpenQuote()) return;
  if (report.ColonWithoutSpace(reason)) return;
  if (report.OpenBracket(reason)) return;
  if (report.BadIndentation()) return;
  if (report.Misplaced(reason)) return;
  if (reason.starts_with("unknown token") && failure.offset < text.size()) {
    report.Add(failure.offset, failure.offset + 1,
               "no value can begin with `" +
                   Printable(text.substr(failure.offset, 1)) + "`",
               "quote the text");
    return;
  }
  // If the line has more bytes before the error than a key may have, it begins
  // with a key that is too long. This is not so if `: ` comes before the error,
  // as in `match: long text: end`: the long text is then a value.
  const size_t line = LineBegin(text, failure.offset);
  const std::string_view before = text.substr(line, failure.offset - line);
  if (reason.starts_with("illegal map value") &&
      before.size() > kLongestKeyBytes &&
      before.find(": ") == std::string_view::npos) {
    report.Add(line, failure.offset, std::string(kLongKeyMessage),
               kLongKeyHelp);
    return;
  }
  for (const Wording& wording : kWordings) {
    if (!reason.starts_with(wording.reason)) continue;
    report.Add(failure.offset, failure.offset + 1, std::string(wording.message),
               wording.help);
    return;
  }
  report.Add(failure.offset, failure.offset + 1,
             "the YAML parser reports: " + reason, "");
}

}  // namespace shardc
