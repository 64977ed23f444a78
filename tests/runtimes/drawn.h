// Pseudo-random numbers that follow from a name, the same as in drawn.py.
#ifndef SHARDC_TESTS_RUNTIMES_DRAWN_H_
#define SHARDC_TESTS_RUNTIMES_DRAWN_H_

#include <cstdint>
#include <string_view>

namespace shardc {

// The pseudo-random numbers in [0, 1) of a name, by their index.
class Drawn {
 public:
  explicit Drawn(std::string_view name) : key_(Hash(name)) {}
  double Unit(uint64_t index) const {
    return static_cast<double>(Hash(key_, index) >> 11) * 0x1p-53;
  }
  // Returns a number of a parameter: between -1/2 and 1/2, or between 0 and 1
  // if the parameter is a vector, so that norms scale by about 1/2.
  double Weight(uint64_t index, bool is_vector) const {
    return is_vector ? Unit(index) : Unit(index) - 0.5;
  }

 private:
  static uint64_t Hash(std::string_view name) {
    uint64_t key = 0xCBF29CE484222325;
    for (const char c : name) {
      key = (key ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    }
    return key;
  }
  static uint64_t Hash(uint64_t key, uint64_t index) {
    uint64_t value = key + index + 0x9E3779B97F4A7C15;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
    return value ^ (value >> 31);
  }

  uint64_t key_;
};

}  // namespace shardc

#endif  // SHARDC_TESTS_RUNTIMES_DRAWN_H_
