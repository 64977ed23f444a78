// Escapes dots that an author meant as separators of a path. Before such a dot
// there is a word, a group, a class or a `+`, and after it a word, a group, a
// class or an escape. A dot that is quantified, escaped, in a class or between
// `\Q` and `\E` is not changed:
//
//   `layers.\d+.mlp`  ->  `layers\.\d+\.mlp`     `.*kernel`, `a[.]b`  no change
#include "lint/analysis/dots.h"

#include <algorithm>

namespace shardc {
namespace {

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

// Return whether the character may precede or follow a dot that separates parts
// of a path.
bool Before(char c) { return IsWord(c) || c == ')' || c == ']' || c == '+'; }
bool After(char c) { return IsWord(c) || c == '(' || c == '[' || c == '\\'; }

// Returns the end of the part at `at` in which a dot is no operator: an escaped
// character, a text between `\Q` and `\E`, or a class. Returns `at` if there is
// none.
size_t LiteralEnd(std::string_view pattern, size_t at) {
  const auto after = [&](std::string_view text, size_t from) {
    const size_t found = pattern.find(text, from);
    return found == pattern.npos ? pattern.size() : found + text.size();
  };
  if (pattern[at] == '\\') {
    return pattern.substr(at, 2) == "\\Q" ? after("\\E", at + 2)
                                          : std::min(at + 2, pattern.size());
  }
  if (pattern[at] != '[') return at;
  size_t end = at + 1;
  if (pattern.substr(end, 1) == "^") ++end;
  if (pattern.substr(end, 1) == "]") ++end;  // the first one is literal
  while (end < pattern.size() && pattern[end] != ']') {
    if (pattern[end] == '\\') {
      end += 2;
    } else if (pattern.substr(end, 2) == "[:") {
      end = after(":]", end + 2);
    } else {
      ++end;
    }
  }
  return std::min(end + 1, pattern.size());
}

}  // namespace

std::optional<std::string> EscapeDots(std::string_view pattern) {
  std::string out;
  bool changed = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (const size_t end = LiteralEnd(pattern, i); end > i) {
      out += pattern.substr(i, end - i);
      i = end - 1;
      continue;
    }
    const bool alone = pattern[i] == '.' && i > 0 && i + 1 < pattern.size() &&
                       Before(pattern[i - 1]) && After(pattern[i + 1]);
    if (alone) {
      out += '\\';
      changed = true;
    }
    out += pattern[i];
  }
  if (!changed) return std::nullopt;
  return out;
}

std::string WithEnd(const std::string& pattern) {
  const bool alternatives = pattern.find('|') != std::string::npos;
  return alternatives ? "(?:" + pattern + ")$" : pattern + "$";
}

}  // namespace shardc
