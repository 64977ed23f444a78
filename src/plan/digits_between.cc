// Finds a number between two literal texts. RE2 captures the longest run of
// digits, and tries fewer digits only if the text after the run does not match.
// That text does not begin with a digit, so it cannot match inside the run.
// Therefore the longest run is the only candidate:
//
//   `experts\.(\d+)\.` in `layers.3.experts.12.w1`  ->  `12`
#include "plan/digits_between.h"

#include <utility>

#include "model/name.h"

namespace shardc {
namespace {

// Returns the text that a part of a pattern matches literally. Returns nullopt
// if the part has other characters than letters, digits, `_`, `/` and escaped
// dots.
std::optional<std::string> Literal(std::string_view part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    const char c = part[i];
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') || c == '_' || c == '/';
    if (plain) {
      out += c;
    } else if (c == '\\' && i + 1 < part.size() && part[i + 1] == '.') {
      out += part[++i];
    } else {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

std::optional<DigitsBetween> DigitsBetween::Of(std::string_view pattern) {
  constexpr std::string_view kDigits = "(\\d+)";
  const size_t at = pattern.find(kDigits);
  if (at == std::string_view::npos) return std::nullopt;
  auto before = Literal(pattern.substr(0, at));
  auto after = Literal(pattern.substr(at + kDigits.size()));
  if (!before || !after || AllDigits(after->substr(0, 1))) return std::nullopt;
  return DigitsBetween{std::move(*before), std::move(*after)};
}

std::optional<std::string_view> DigitsBetween::In(std::string_view name) const {
  for (size_t at = name.find(before); at != std::string_view::npos;
       at = name.find(before, at + 1)) {
    const size_t begin = at + before.size();
    size_t end = begin;
    while (end < name.size() && AllDigits(name.substr(end, 1))) ++end;
    if (end > begin && name.substr(end).starts_with(after)) {
      return name.substr(begin, end - begin);
    }
  }
  return std::nullopt;
}

}  // namespace shardc
