// A size, a count or a number of bytes whose arithmetic cannot overflow. If a
// result is INT64_MAX or more, Fits() returns false. For example:
//
//   Size all = Size(batch) * length * heads;
//   if (!all.Fits()) return false;  // too large; all.value() is INT64_MAX
//   return all.value();
#ifndef SHARDC_SOURCE_SIZE_H_
#define SHARDC_SOURCE_SIZE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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

// Returns `i`, which must not be negative, as an index or a size of a standard
// container. Sizes of dimensions and numbers of axes are int64_t, so that
// differences may be negative.
constexpr size_t AsIndex(int64_t i) { return static_cast<size_t>(i); }

// Parses a size such as `80GiB`, `80G`, `1.5 GB`, `512B` or `1048576`. A size
// is a decimal number with at most six decimal places (none for bytes),
// optional spaces, and a unit. Units are powers of 1024 (`G`, `Gi`, `GiB`),
// powers of 1000 (`GB`), or `B`; a unit may be in lower case. A number without
// a unit is a number of bytes and must be at least 1 MiB: in a smaller number,
// the unit was probably forgotten. Fractions of a byte are rounded down.
// Returns nullopt for any other text, for sizes below one byte, and for sizes
// that int64_t cannot hold.
std::optional<int64_t> ParseByteSize(std::string_view text);

// Returns the message for a text `seen` that ParseByteSize rejects, with the
// reason: "`memory` is `80`, of what unit?". `what` names the key or flag that
// has the text. kByteSizeHelp is the advice that is printed below the message.
std::string NotByteSize(std::string_view what, std::string_view seen);
inline constexpr std::string_view kByteSizeHelp =
    "write a number and a unit, such as `80GiB`";

// A set is a bit mask, so the values of the enumerators must be in [0, 64).
template <class E>
class EnumSet {
 public:
  constexpr EnumSet() = default;
  constexpr EnumSet(std::initializer_list<E> values) {
    for (const E value : values) bits_ |= Bit(value);
  }

  constexpr bool Has(E value) const { return (bits_ & Bit(value)) != 0; }
  // Returns the union.
  constexpr EnumSet operator|(const EnumSet& other) const {
    EnumSet out;
    out.bits_ = bits_ | other.bits_;
    return out;
  }
  constexpr bool operator==(const EnumSet&) const = default;

 private:
  static constexpr uint64_t Bit(E value) {
    return uint64_t{1} << static_cast<unsigned>(value);
  }

  uint64_t bits_ = 0;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_SIZE_H_
