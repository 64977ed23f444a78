// Runs the recorded numeric vectors through the library: rotary tables,
// repeated heads, int8 rows, cache writes and attention. "The source" is the
// library whose results were recorded.
#ifndef SHARDC_TESTS_VECTORS_NUMERIC_H_
#define SHARDC_TESTS_VECTORS_NUMERIC_H_

#include <span>
#include <string>
#include <string_view>

#include "source/json.h"

namespace shardc::vectors {

// Returns an empty text if the library returns the recorded result, or differs
// from it exactly as NumericDifferences states; otherwise the difference.
std::string CheckNumeric(const JsonValue& test_case);

// A deliberate difference between the library and the source. Each check shows
// that the library differs, and that this difference alone explains the
// recorded result.
struct Difference {
  std::string_view name;
  std::string_view reason;
};
std::span<const Difference> NumericDifferences();
// Returns the name of the difference that a case shows; empty for most cases.
std::string_view NumericDifferenceOf(const JsonValue& test_case);

}  // namespace shardc::vectors

#endif  // SHARDC_TESTS_VECTORS_NUMERIC_H_
