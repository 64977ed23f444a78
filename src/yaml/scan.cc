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

#include "source/utf8.h"

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

bool LooksLikeUtf16(std::string_view text) {
  if (text.size() < 2) return false;
  const auto a = static_cast<unsigned char>(text[0]);
  const auto b = static_cast<unsigned char>(text[1]);
  return (a == 0xff && b == 0xfe) || (a == 0xfe && b == 0xff) ||
         (a == 0 && b != 0 && b < 0x80) ||
         (a != 0 && a < 0x80 && b == 0 && text.size() % 2 == 0);
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

size_t LineEnd(std::string_view text, size_t at) {
  while (at < text.size() && !IsBreak(text[at])) ++at;
  return at;
}

std::optional<TextFault> FindTextFault(std::string_view text) {
  if (LooksLikeUtf16(text)) {
    return TextFault{0, "this is UTF-16 or UTF-32 text, not UTF-8",
                     "save the file as UTF-8"};
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

}  // namespace shardc
