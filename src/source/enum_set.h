// A set of enumerators, usable in constant expressions.
#ifndef SHARDC_SOURCE_ENUM_SET_H_
#define SHARDC_SOURCE_ENUM_SET_H_

#include <cstdint>
#include <initializer_list>

namespace shardc {

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

#endif  // SHARDC_SOURCE_ENUM_SET_H_
