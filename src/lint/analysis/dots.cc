// Escapes the dots of a pattern that an author meant as separators of a path.
// Such a dot follows a word, a group, a class or a `+`, and precedes a word, a
// group, a class or an escape. A dot that is quantified, escaped, in a class or
// between `\Q` and `\E` is not changed:
//
//   `layers.\d+.mlp`  ->  `layers\.\d+\.mlp`     `.*kernel`, `a[.]b`  no change
#include "lint/analysis/dots.h"

#include "match/pattern_atom.h"

namespace shardc {

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

namespace {

// Before returns whether the character may precede a dot that separates parts
// of a path. After returns whether it may follow such a dot.
bool Before(char c) { return IsWord(c) || c == ')' || c == ']' || c == '+'; }
bool After(char c) { return IsWord(c) || c == '(' || c == '[' || c == '\\'; }

}  // namespace

std::optional<std::string> EscapeDots(std::string_view pattern) {
  std::string out;
  bool changed = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' || pattern[i] == '[') {
      const size_t end = AtomEnd(pattern, i);
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

std::optional<std::string> WithLowerBounds(std::string_view pattern) {
  std::string out;
  bool changed = false;
  for (size_t i = 0; i < pattern.size();) {
    const size_t end = AtomEnd(pattern, i);
    out += pattern.substr(i, end - i);
    const bool opens = pattern.substr(i, end - i) == "{" && i > 0;
    i = end;
    if (!opens || i >= pattern.size() || pattern[i] != ',') continue;
    const size_t close = pattern.find_first_not_of("0123456789", i + 1);
    if (close == pattern.npos || pattern[close] != '}') continue;
    out += '0';
    changed = true;
  }
  if (!changed) return std::nullopt;
  return out;
}

std::string WithEnd(const std::string& pattern, std::string_view end) {
  const bool alternatives = pattern.find('|') != std::string::npos;
  return (alternatives ? "(?:" + pattern + ")" : pattern) + std::string(end);
}

}  // namespace shardc
