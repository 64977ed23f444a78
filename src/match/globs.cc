// A pattern with an operator of regular expressions, such as `\.` or `(`, keeps
// its dots, since only the star or the brace comes from a shell. In a pattern
// without one, a dot stands for itself.
#include "match/globs.h"

#include <algorithm>

#include "source/utf8.h"

namespace shardc {
namespace {

constexpr std::string_view kOperators = "\\()[]^$+|";

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit);
}

// Returns the regular expression of the braces whose contents are `inner`.
// Returns nullopt for a repetition of regular expressions, such as `{2,5}`, and
// for braces that are not those of a shell.
std::optional<std::string> RegexOfBraces(std::string_view inner) {
  const size_t range = inner.find("..");
  if (range != std::string_view::npos) {
    if (!IsNumber(inner.substr(0, range)) ||
        !IsNumber(inner.substr(range + 2))) {
      return std::nullopt;
    }
    return "[0-9]+";
  }
  const size_t comma = inner.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  // `{2,5}`, `{2,}` and Python's `{,5}`.
  const auto counts = [](std::string_view text) {
    return text.empty() || IsNumber(text);
  };
  if (counts(inner.substr(0, comma)) && counts(inner.substr(comma + 1))) {
    return std::nullopt;
  }
  std::string out = "(";
  for (const char c : inner) {
    if (c != ',' && kOperators.find(c) != std::string_view::npos) {
      return std::nullopt;
    }
    out += c == ',' ? '|' : c;
  }
  return out + ")";
}

}  // namespace

std::optional<std::string> RegexOfGlob(std::string_view pattern) {
  const bool mixed =
      pattern.find_first_of(kOperators) != std::string_view::npos;
  bool is_glob = false;
  std::string out;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const char c = pattern[at];
    const std::string_view rest = pattern.substr(at);
    if (c == '\\') {
      out += rest.substr(0, 2);
      ++at;
    } else if (c == '{') {
      const size_t end = rest.find('}');
      const auto regex = end == std::string_view::npos
                             ? std::nullopt
                             : RegexOfBraces(rest.substr(1, end - 1));
      if (!regex) {
        out += c;
        continue;
      }
      is_glob = true;
      out += *regex;
      at += end;
    } else if (c == '*') {
      const bool twice = rest.starts_with("**");
      // `/*/` is a whole part of a name; as a regular expression it is slashes.
      const bool part = at > 0 && pattern[at - 1] == '/' &&
                        (rest.size() == 1 || rest[1] == '/');
      const bool shell = at == 0 || twice || part;
      is_glob = is_glob || shell;
      // In `.*` of a mixed pattern the dot is already there.
      out += shell || !mixed ? ".*" : "*";
      if (twice) ++at;
    } else if (c == '.' && !mixed) {
      out += "\\.";
    } else {
      out += c;
    }
  }
  if (!is_glob) return std::nullopt;
  return out;
}

}  // namespace shardc
