// Finds the number that a rule's pattern `place.index` captures in a name,
// without RE2. This is possible if the pattern is digits between two literal
// texts, such as `experts\.(\d+)\.`.
#ifndef SHARDC_PLAN_DIGITS_BETWEEN_H_
#define SHARDC_PLAN_DIGITS_BETWEEN_H_

#include <optional>
#include <string>
#include <string_view>

namespace shardc {

// A pattern of digits between two texts, such as `experts\.(\d+)\.`.
struct DigitsBetween {
  std::string before, after;

  // Parses a pattern. Returns nullopt if the pattern is not digits between two
  // texts.
  static std::optional<DigitsBetween> Of(std::string_view pattern);

  // Returns the digits that the pattern's group captures in its first match in
  // the name, which are the same as with RE2. Returns nullopt if the name does
  // not match.
  std::optional<std::string_view> In(std::string_view name) const;
};

}  // namespace shardc

#endif  // SHARDC_PLAN_DIGITS_BETWEEN_H_
