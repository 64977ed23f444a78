#include "match/pattern_atom.h"

#include <algorithm>

namespace shardc {
namespace {

// Searches for `text` from offset `at` on. Returns the offset after the text,
// or the size of the pattern if the text is not found.
size_t After(std::string_view pattern, std::string_view text, size_t at) {
  const size_t found = pattern.find(text, at);
  return found == pattern.npos ? pattern.size() : found + text.size();
}

size_t EscapeEnd(std::string_view pattern, size_t at) {
  if (pattern.substr(at, 2) == "\\Q") return After(pattern, "\\E", at + 2);
  // The braces of `\x{600}` and `\p{Greek}` are part of the escape, not a
  // repetition.
  const bool braces =
      pattern.substr(at + 2).starts_with('{') &&
      std::string_view("xpP").find(pattern[at + 1]) != std::string_view::npos;
  return braces ? After(pattern, "}", at + 2) : at + 2;
}

// Returns the offset after the class that begins at `at`. A `]` directly after
// `[` or `[^` is literal.
size_t ClassEnd(std::string_view pattern, size_t at) {
  ++at;
  if (pattern.substr(at).starts_with('^')) ++at;
  if (pattern.substr(at).starts_with(']')) ++at;
  while (at < pattern.size() && pattern[at] != ']') {
    if (pattern.substr(at, 2) == "[:") {
      at = After(pattern, ":]", at + 2);
    } else {
      at += pattern[at] == '\\' ? 2 : 1;
    }
  }
  return at + 1;
}

}  // namespace

size_t AtomEnd(std::string_view pattern, size_t at) {
  size_t end = at + 1;
  if (pattern[at] == '\\' && end < pattern.size()) end = EscapeEnd(pattern, at);
  if (pattern[at] == '[') end = ClassEnd(pattern, at);
  return std::min(end, pattern.size());
}

}  // namespace shardc
