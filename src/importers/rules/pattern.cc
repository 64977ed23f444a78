// Translates patterns character by character. Character classes are copied,
// with `^` for the `!` that negates one in a glob, and escapes of Python's
// patterns are copied except for `\Z`:
//
//   glob    layers.*.q_[!ab]  ->  ^layers\..*\.q_[^ab]$
//   Python  kernel\Z          ->  kernel\z
#include "importers/rules/pattern.h"

namespace shardc::imports {
namespace {

bool IsSpecial(char c) {
  return std::string_view("\\.+*?()|[]{}^$").find(c) != std::string_view::npos;
}

// Returns the offset after the character class, such as `[ab]`, that begins at
// `at`.
size_t ClassEnd(std::string_view text, size_t at) {
  size_t i = at + 1;
  if (i < text.size() && (text[i] == '^' || text[i] == '!')) ++i;
  if (i < text.size() && text[i] == ']') ++i;
  while (i < text.size() && text[i] != ']') i += text[i] == '\\' ? 2 : 1;
  return i < text.size() ? i + 1 : std::string_view::npos;
}

// Makes the dots and negated classes of a pattern match no separator. A pattern
// with an unclosed class is returned unchanged.
std::string WithinPart(std::string_view pattern, char separator) {
  const std::string other =
      separator == '.' ? "\\." : std::string(1, separator);
  std::string out;
  for (size_t i = 0; i < pattern.size();) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      const char c = pattern[i + 1];
      if (c == 'S' || c == 'D' || c == 'W') {
        constexpr std::string_view kLower = "sdw", kUpper = "SDW";
        out += "[^" + other + "\\" + kLower[kUpper.find(c)] + "]";
      } else {
        out += pattern.substr(i, 2);
      }
      i += 2;
    } else if (pattern[i] == '[') {
      const size_t end = ClassEnd(pattern, i);
      if (end == std::string_view::npos) return std::string(pattern);
      std::string text(pattern.substr(i, end - i));
      if (text.starts_with("[^")) text.insert(2, other);
      out += text;
      i = end;
    } else {
      out +=
          pattern[i] == '.' ? "[^" + other + "]" : std::string(1, pattern[i]);
      ++i;
    }
  }
  return out;
}

}  // namespace

std::string Literal(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (IsSpecial(c)) out += '\\';
    out += c;
  }
  return out;
}

std::string EntireName(std::string_view name) {
  return "^" + Literal(name) + "$";
}

std::string FromGlob(std::string_view glob) {
  std::string out = "^";
  for (size_t i = 0; i < glob.size();) {
    const size_t end =
        glob[i] == '[' ? ClassEnd(glob, i) : std::string_view::npos;
    if (glob[i] == '*') {
      out += ".*";
      ++i;
    } else if (glob[i] == '?') {
      out += '.';
      ++i;
    } else if (end != std::string_view::npos) {
      std::string text(glob.substr(i, end - i));
      if (text[1] == '!') {
        text[1] = '^';
      } else if (text[1] == '^') {
        text.insert(1, "\\");
      }
      out += text;
      i = end;
    } else {
      out += Literal(glob.substr(i, 1));
      ++i;
    }
  }
  return out + "$";
}

std::string FromPython(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    out += '\\';
    out += pattern[++i] == 'Z' ? 'z' : pattern[i];
  }
  return out;
}

std::string FromParts(std::span<const std::string> parts, char separator) {
  const std::string between =
      separator == '.' ? "\\." : std::string(1, separator);
  std::string out = "(?:^|" + between + ")";
  for (size_t i = 0; i < parts.size(); ++i) {
    out += (i == 0 ? "" : between) +
           "(?:" + WithinPart(FromPython(parts[i]), separator) + ")";
  }
  return out + "(?:" + between + "|$)";
}

}  // namespace shardc::imports
