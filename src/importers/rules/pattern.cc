// Translates globs and Python's patterns to RE2, one character at a time. In a
// character class of a glob, `!` becomes `^`, and characters with a special
// meaning in RE2 are escaped. Python's patterns are copied, except for syntax
// that means something else in RE2 than in Python:
//
//   glob    layers.*.q_[!ab]  ->  ^layers\..*\.q_[^ab]$
//   Python  kernel\Z          ->  kernel\z
//   Python  h\d{,2}           ->  h\d{0,2}, as RE2's `{,2}` is literal text
//   Python  [[:a]             ->  [\[:a], as RE2's `[:` begins `[:alpha:]`
#include "importers/rules/pattern.h"

namespace shardc::imports {
namespace {

bool IsSpecial(char c) {
  return std::string_view("\\.+*?()|[]{}^$").find(c) != std::string_view::npos;
}

// Returns the offset after the character class, such as `[ab]`, that begins at
// `at`. Returns npos if the class does not end. In a glob, `!` negates the
// class, and a backslash is an ordinary member of the class.
size_t ClassEnd(std::string_view text, size_t at, bool glob) {
  size_t i = at + 1;
  if (i < text.size() && text[i] == (glob ? '!' : '^')) ++i;
  if (i < text.size() && text[i] == ']') ++i;
  while (i < text.size() && text[i] != ']') {
    i += text[i] == '\\' && !glob ? 2 : 1;
  }
  return i < text.size() ? i + 1 : std::string_view::npos;
}

// Returns a count of a repetition, such as the 2 in `{02}`, without leading
// zeros, which RE2 does not accept. Returns 0 for an absent count.
std::string Count(std::string_view digits) {
  const size_t first = digits.find_first_not_of('0');
  return first == std::string_view::npos ? "0"
                                         : std::string(digits.substr(first));
}

// Translates the repetition, such as `{2}` or `{,3}`, that begins at `at`, and
// sets `at` to the position of its last character. If Python reads the braces
// as literal text, returns `{` and does not change `at`.
std::string Repetition(std::string_view pattern, size_t& at) {
  size_t end = at + 1;
  const auto digits = [&] {
    const size_t begin = end;
    while (end < pattern.size() && pattern[end] >= '0' && pattern[end] <= '9') {
      ++end;
    }
    return pattern.substr(begin, end - begin);
  };
  const std::string_view least = digits();
  const bool range = end < pattern.size() && pattern[end] == ',';
  if (range) ++end;
  const std::string_view most = range ? digits() : std::string_view();
  const bool closed = end < pattern.size() && pattern[end] == '}';
  if (!closed || (least.empty() && !range)) return "{";
  at = end;
  return "{" + Count(least) + (range ? "," : "") +
         (most.empty() ? "" : Count(most)) + "}";
}

// Returns the length of the text `^`, `$`, `\A` or `\z` at `at`, or 0 if none
// of them begins at `at`.
size_t EdgeSize(std::string_view pattern, size_t at) {
  const std::string_view rest = pattern.substr(at);
  if (rest.starts_with('^') || rest.starts_with('$')) return 1;
  return rest.starts_with("\\A") || rest.starts_with("\\z") ? 2 : 0;
}

// Returns whether the text `^`, `$`, `\A` or `\z` at `at` is at an end of the
// pattern or of one of its alternatives.
bool IsAtEnd(std::string_view pattern, size_t at, size_t size) {
  const size_t end = at + size;
  if (pattern[end - 1] == '$' || pattern[end - 1] == 'z') {
    return end == pattern.size() || pattern[end] == ')' || pattern[end] == '|';
  }
  const std::string_view before = pattern.substr(0, at);
  return before.empty() || before.ends_with("(?:") ||
         ((before.ends_with('(') || before.ends_with('|')) &&
          !before.ends_with("\\(") && !before.ends_with("\\|"));
}

// Returns a pattern that matches only within one part of a name. Dots and
// negated classes no longer match the separator. `^`, `$`, `\A` and `\z` at the
// pattern's ends are removed. They meant the ends of the part, but RE2 would
// match them only at the ends of the name. A pattern with an unclosed class is
// returned unchanged.
std::string WithinPart(std::string_view pattern, char separator) {
  const std::string other =
      separator == '.' ? "\\." : std::string(1, separator);
  std::string out;
  for (size_t i = 0; i < pattern.size();) {
    const size_t edge = EdgeSize(pattern, i);
    if (edge > 0 && IsAtEnd(pattern, i, edge)) {
      i += edge;
    } else if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      const char c = pattern[i + 1];
      if (c == 'S' || c == 'D' || c == 'W') {
        constexpr std::string_view kLower = "sdw", kUpper = "SDW";
        out += "[^" + other + "\\" + kLower[kUpper.find(c)] + "]";
      } else {
        out += pattern.substr(i, 2);
      }
      i += 2;
    } else if (pattern[i] == '[') {
      const size_t end = ClassEnd(pattern, i, false);
      if (end == std::string_view::npos) return std::string(pattern);
      std::string text(pattern.substr(i, end - i));
      if (text.starts_with("[^]")) text.insert(2, "\\");
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

// Converts the members of a character class of a glob, such as `!a\b`, to a
// class of RE2.
std::string ClassOf(std::string_view members) {
  std::string out = "[";
  if (members.starts_with('!')) {
    out += '^';
    members.remove_prefix(1);
  }
  for (const char c : members) {
    if (c == '\\' || c == '[' || c == ']' || c == '^') out += '\\';
    out += c;
  }
  return out + "]";
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
        glob[i] == '[' ? ClassEnd(glob, i, true) : std::string_view::npos;
    if (glob[i] == '*') {
      out += ".*";
      ++i;
    } else if (glob[i] == '?') {
      out += '.';
      ++i;
    } else if (end != std::string_view::npos) {
      out += ClassOf(glob.substr(i + 1, end - i - 2));
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
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const bool last = i + 1 == pattern.size();
    if (c == '\\' && !last) {
      out += c;
      out += pattern[++i] == 'Z' ? 'z' : pattern[i];
    } else if (in_class) {
      if (c == '[' && !last && pattern[i + 1] == ':') out += '\\';
      out += c;
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
      out += c;
      // In `[]a]` and `[^]a]` the first `]` is a member of the class.
      for (const char first : {'^', ']'}) {
        if (i + 1 < pattern.size() && pattern[i + 1] == first) {
          out += pattern[++i];
        }
      }
    } else {
      out += c == '{' ? Repetition(pattern, i) : std::string(1, c);
    }
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
