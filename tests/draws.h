// Random numbers for tests. They come from a seeded generator, or from the
// bytes of a fuzzer and, after these, from a generator.
#ifndef SHARDC_TESTS_DRAWS_H_
#define SHARDC_TESTS_DRAWS_H_

#include <cstdint>
#include <limits>
#include <random>
#include <string>
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

// Changes a text of JSON so many times: replaces, inserts or removes bytes, or
// copies up to `longest` bytes of it to another place. `bytes` are those that
// are written.
inline std::string Changed(std::string text, uint64_t times,
                           std::string_view bytes, uint64_t longest,
                           std::mt19937_64& random) {
  for (; times > 0; --times) {
    const size_t at = random() % text.size();
    const char byte = bytes[random() % bytes.size()];
    switch (random() % 4) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text.insert(at, 1, byte);
        break;
      case 2:
        text.erase(at, 1 + random() % 3);
        break;
      default:
        text.insert(at,
                    text.substr(random() % text.size(), random() % longest));
    }
    if (text.empty()) text = "{";
  }
  return text;
}

}  // namespace shardc

#endif  // SHARDC_TESTS_DRAWS_H_
