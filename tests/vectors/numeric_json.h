// Reads and compares the arrays of the numeric vectors.
#ifndef SHARDC_TESTS_VECTORS_NUMERIC_JSON_H_
#define SHARDC_TESTS_VECTORS_NUMERIC_JSON_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dense/array.h"
#include "source/json.h"

namespace shardc::vectors {

// Thrown if a case lacks a required member; the case then fails.
struct Unreadable {
  std::string what;
};

// Returns a required member; throws Unreadable if it is absent.
inline JsonValue Need(JsonValue value, std::string_view key) {
  const auto found = value.Find(key);
  if (!found) throw Unreadable{"no `" + std::string(key) + "`"};
  return *found;
}

inline void AppendNumbers(const JsonValue& value, std::vector<double>& out) {
  if (!value.IsArray()) {
    // The recorded numbers are float32.
    out.push_back(static_cast<float>(value.real()));
    return;
  }
  for (JsonValue item : value.items()) AppendNumbers(item, out);
}

// Reads an array. It must have `rank` dimensions, unless `rank` is 0, and must
// not be ragged; otherwise Unreadable is thrown.
inline dense::Array ArrayOf(JsonValue value, size_t rank = 0) {
  dense::Array out;
  AppendNumbers(value, out.data);
  size_t elements = 1;
  while (value.IsArray()) {
    out.shape.push_back(static_cast<int64_t>(value.size()));
    elements *= value.size();
    if (value.size() == 0) break;
    value = *value.items().begin();
  }
  if (elements != out.data.size()) throw Unreadable{"a ragged array"};
  if (rank > 0 && out.shape.size() != rank) {
    throw Unreadable{"an array of rank " + std::to_string(out.shape.size()) +
                     ", not " + std::to_string(rank)};
  }
  return out;
}

// Appends the numbers in float64, not rounded to float32.
inline void AppendDoubles(const JsonValue& value, std::vector<double>& out) {
  if (!value.IsArray()) {
    out.push_back(value.real());
    return;
  }
  for (JsonValue item : value.items()) AppendDoubles(item, out);
}

inline std::vector<float> Floats(const dense::Array& x) {
  return {x.data.begin(), x.data.end()};
}

inline std::string Compare(std::string_view name,
                           const std::vector<double>& got,
                           const std::vector<double>& want, double rtol = 0,
                           double atol = 0) {
  if (got.size() != want.size()) {
    return std::string(name) + ": " + std::to_string(got.size()) +
           " elements, want " + std::to_string(want.size());
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::abs(got[i] - want[i]) <= atol + rtol * std::abs(want[i])) {
      continue;
    }
    return std::string(name) + "[" + std::to_string(i) +
           "]: " + std::to_string(got[i]) + ", want " + std::to_string(want[i]);
  }
  return {};
}

}  // namespace shardc::vectors

#endif  // SHARDC_TESTS_VECTORS_NUMERIC_JSON_H_
