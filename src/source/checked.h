// 64-bit arithmetic that returns nullopt on overflow.
#ifndef SHARDC_SOURCE_CHECKED_H_
#define SHARDC_SOURCE_CHECKED_H_

#include <cstdint>
#include <optional>
#include <span>

namespace shardc {

inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// Returns the product of `factors`, 1 if there are none. Returns nullopt if the
// product of the factors other than zero overflows, even if another factor is
// zero.
inline std::optional<int64_t> CheckedProduct(std::span<const int64_t> factors) {
  int64_t out = 1;
  bool zero = false;
  for (int64_t factor : factors) {
    if (factor == 0) {
      zero = true;
      continue;
    }
    auto next = CheckedMul(out, factor);
    if (!next) return std::nullopt;
    out = *next;
  }
  return zero ? 0 : out;
}

// Returns a / b rounded up, for a >= 0 and b > 0 whose sum does not overflow.
constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace shardc

#endif  // SHARDC_SOURCE_CHECKED_H_
