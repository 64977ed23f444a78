// A set of an enumeration's values, known while compiling.
#ifndef SHARDC_SOURCE_ENUM_SET_H_
#define SHARDC_SOURCE_ENUM_SET_H_

#include <cstdint>
#include <initializer_list>

namespace shardc {

// Of 64 values at most.
template <class E>
class EnumSet {
 public:
  constexpr EnumSet() = default;
  constexpr EnumSet(std::initializer_list<E> values) {
    for (const E value : values) bits_ |= Bit(value);
  }

  constexpr bool Has(E value) const { return (bits_ & Bit(value)) != 0; }
  // What is in either.
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
