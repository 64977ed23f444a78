// The recorded numeric vectors: rotary tables, repeated heads, int8 rows,
// cache writes and attention, run through the library.
#ifndef SHARDC_TESTS_VECTORS_NUMERIC_H_
#define SHARDC_TESTS_VECTORS_NUMERIC_H_

#include <span>
#include <string>
#include <string_view>

#include "source/json.h"

namespace shardc::vectors {

// Returns an empty text if the library gives the recorded result, or differs
// exactly as in the table below; otherwise the difference.
std::string CheckNumeric(const JsonValue& test_case);

// Where the library differs from the recorded source on purpose. Each check
// shows both that the library does otherwise and that the difference alone
// explains what was recorded.
struct Difference {
  std::string_view name;
  std::string_view reason;
};
std::span<const Difference> NumericDifferences();
// The name of the difference that a case falls under; empty for most.
std::string_view NumericDifferenceOf(const JsonValue& test_case);

}  // namespace shardc::vectors

#endif  // SHARDC_TESTS_VECTORS_NUMERIC_H_
