// A size, a count or a number of bytes whose arithmetic cannot overflow. If a
// result is INT64_MAX or more, Fits() returns false. For example:
//
//   Size all = Size(batch) * length * heads;
//   if (!all.Fits()) return false;  // too large; all.value() is INT64_MAX
//   return all.value();
#ifndef SHARDC_SOURCE_SIZE_H_
#define SHARDC_SOURCE_SIZE_H_

#include <cstdint>
#include <optional>

namespace shardc {

// A number of at least 0. A result of INT64_MAX or above is "too large". Sums,
// products and quotients of a number that is too large are too large as well,
// even its product with 0.
class Size {
 public:
  static constexpr int64_t kTooLarge = INT64_MAX;

  // Implicit, so that sizes of shapes can be multiplied as they are.
  constexpr Size(int64_t value)  // NOLINT(google-explicit-constructor)
      : value_(value) {}

  constexpr bool Fits() const { return value_ != kTooLarge; }
  // Returns the number, or kTooLarge.
  constexpr int64_t value() const { return value_; }
  constexpr std::optional<int64_t> Checked() const {
    return Fits() ? std::optional(value_) : std::nullopt;
  }

  friend constexpr Size operator*(Size a, Size b) {
    int64_t out = 0;
    const bool fits = a.Fits() && b.Fits() &&
                      !__builtin_mul_overflow(a.value_, b.value_, &out);
    return fits ? out : kTooLarge;
  }
  friend constexpr Size operator+(Size a, Size b) {
    int64_t out = 0;
    const bool fits = a.Fits() && b.Fits() &&
                      !__builtin_add_overflow(a.value_, b.value_, &out);
    return fits ? out : kTooLarge;
  }
  // `b` must be above 0.
  friend constexpr Size operator/(Size a, Size b) {
    return a.Fits() && b.Fits() ? a.value_ / b.value_ : kTooLarge;
  }
  constexpr Size& operator*=(Size other) { return *this = *this * other; }
  constexpr Size& operator+=(Size other) { return *this = *this + other; }

 private:
  int64_t value_;
};

// Returns the size divided by `parts`, rounded up.
constexpr int64_t ShareOf(int64_t size, int64_t parts) {
  return size / parts + (size % parts != 0 ? 1 : 0);
}

}  // namespace shardc

#endif  // SHARDC_SOURCE_SIZE_H_
