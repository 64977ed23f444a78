// Where random tests draw from: a generator of a seed, or bytes that a fuzzer
// chooses, and where these end a generator again.
#ifndef SHARDC_TESTS_DRAWS_H_
#define SHARDC_TESTS_DRAWS_H_

#include <cstdint>
#include <limits>
#include <random>
#include <string_view>

namespace shardc {

class Draws {
 public:
  using result_type = uint64_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() {
    return std::numeric_limits<result_type>::max();
  }

  explicit Draws(uint64_t seed) : random_(seed) {}
  // The bytes stay the caller's.
  explicit Draws(std::string_view bytes)
      : bytes_(bytes), random_(bytes.size()) {}

  // Of the bytes two each time, so that a few decide much.
  result_type operator()() {
    if (bytes_.size() < 2) return random_();
    const auto low = static_cast<unsigned char>(bytes_[0]);
    const auto high = static_cast<unsigned char>(bytes_[1]);
    bytes_.remove_prefix(2);
    return result_type{low} | result_type{high} << 8;
  }

 private:
  std::string_view bytes_;
  std::mt19937_64 random_;
};

}  // namespace shardc

#endif  // SHARDC_TESTS_DRAWS_H_
