// Rotary position embedding (Su and others, 2021), and how models stretch it.
#ifndef SHARDC_DENSE_ROTARY_H_
#define SHARDC_DENSE_ROTARY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/dtype.h"

namespace shardc::dense {

enum class Stretch : uint8_t {
  kNone,
  kLinear,   // all frequencies / factor
  kDynamic,  // a larger base for sequences longer than the original ones
  kYarn,     // low frequencies / factor, those between two counts of turns less
  kLlama3,   // low frequencies / factor, those between two wavelengths less
};

struct Rope {
  double base = 10000;
  Stretch stretch = Stretch::kNone;
  double factor = 1;
  double original_length = 0;
  // kYarn: turns over the original length, above which a frequency is kept and
  // below which it is divided; whether the frequencies' numbers that they lead
  // to are rounded outwards.
  double fast_turns = 32, slow_turns = 1;
  bool whole_numbers = true;
  // kLlama3: parts of the original length that wavelengths are compared with.
  double low_part = 1, high_part = 4;
  // On what is rotated; absent: kYarn's own, 0.1 ln(factor) + 1, else 1.
  std::optional<double> amplitude;
};

// Which elements are a pair: i and i + dim/2, or 2i and 2i + 1.
enum class Pairs : uint8_t { kHalves, kNeighbours };

// Of heads of `dim` elements, for sequences of up to `length` tokens.
class Rotary {
 public:
  Rotary(int64_t dim, int64_t length, const Rope& rope, Pairs pairs);

  // Radians a position, [dim/2].
  const std::vector<double>& frequencies() const { return frequencies_; }
  double amplitude() const { return amplitude_; }

  // Turns a row of heads in place: pair i by position * frequencies()[i], in
  // float32's arithmetic, with sin and cos rounded to it.
  void Turn(int64_t position, std::span<float> heads) const;
  // Element d of a rotated head, `at`, and the error that float32 arithmetic
  // may have.
  struct Turned {
    double at = 0, off = 0;
  };
  Turned TurnOne(int64_t position, std::span<const float> head,
                 int64_t d) const;

 private:
  int64_t Partner(int64_t d) const;

  std::vector<double> frequencies_;
  double amplitude_ = 1;
  Pairs pairs_;
};

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_ROTARY_H_
