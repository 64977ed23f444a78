// Numbers that follow from a name, as drawn.py draws them.
#ifndef SHARDC_TESTS_RUNTIMES_DRAWN_H_
#define SHARDC_TESTS_RUNTIMES_DRAWN_H_

#include <cstdint>
#include <string_view>

namespace shardc {

// A name's numbers in [0, 1), by their index.
class Drawn {
 public:
  explicit Drawn(std::string_view name) {
    for (const char c : name) {
      key_ = (key_ ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    }
  }
  double Unit(uint64_t index) const {
    return static_cast<double>(Scrambled(key_ + index) >> 11) * 0x1p-53;
  }
  // Of a parameter: a vector's are around 1/2, so that norms scale.
  double Weight(uint64_t index, bool is_vector) const {
    return is_vector ? Unit(index) : Unit(index) - 0.5;
  }

 private:
  static uint64_t Scrambled(uint64_t value) {
    value += 0x9E3779B97F4A7C15;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
  }

  uint64_t key_ = 0xCBF29CE484222325;
};

}  // namespace shardc

#endif  // SHARDC_TESTS_RUNTIMES_DRAWN_H_
