// Random numbers for tests. They come from a seeded generator, or from the
// bytes of a fuzzer and, after these, from a generator.
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
  // `bytes` must outlive this object.
  explicit Draws(std::string_view bytes)
      : bytes_(bytes), random_(bytes.size()) {}

  // Each draw takes two bytes, so that few bytes determine an entire case.
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
