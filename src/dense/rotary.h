// Rotary position embedding (Su and others, 2021), and how models extend it to
// longer contexts.
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
  kYarn,     // low frequencies / factor, blended between two counts of turns
  kLlama3,   // low frequencies / factor, blended between two wavelengths
};

struct Rope {
  double base = 10000;
  Stretch stretch = Stretch::kNone;
  double factor = 1;
  double original_length = 0;
  // kYarn: a frequency is kept if it makes more than `fast_turns` turns over
  // the original length, and divided by `factor` if it makes fewer than
  // `slow_turns`. With `rounds_outwards`, the index of the first frequency
  // between these limits is rounded down, and the index of the last one is
  // rounded up.
  double fast_turns = 32, slow_turns = 1;
  bool rounds_outwards = true;
  // kLlama3: frequencies with wavelengths above original length / low_part are
  // divided by `factor`, and those below original length / high_part are kept.
  double low_part = 1, high_part = 4;
  // The number by which rotated elements are multiplied. If absent: 0.1
  // ln(factor) + 1 for kYarn with a factor above 1, else 1.
  std::optional<double> amplitude;
};

// Which elements form a pair: i and i + dim/2, or 2i and 2i + 1.
enum class Pairs : uint8_t { kHalves, kNeighbours };

// The rotation of heads of `dim` elements, for sequences of up to `length`
// tokens.
class Rotary {
 public:
  Rotary(int64_t dim, int64_t length, const Rope& rope, Pairs pairs);

  // The rotation of each pair per position in radians, [dim/2].
  const std::vector<double>& frequencies() const { return frequencies_; }
  double amplitude() const { return amplitude_; }

  // Rotates a row of heads in place, pair i by the angle position *
  // frequencies()[i], and multiplies by the amplitude. The numbers amplitude *
  // sin and amplitude * cos are computed in double and rounded to float32; all
  // other arithmetic is float32's.
  void Rotate(int64_t position, std::span<float> heads) const;
  // Element d of a rotated head in double (`at`), and the largest error that
  // Rotate's float32 arithmetic may make in it (`off`).
  struct RotatedValue {
    double at = 0, off = 0;
  };
  RotatedValue RotatedElement(int64_t position, std::span<const float> head,
                              int64_t d) const;

 private:
  int64_t Partner(int64_t d) const;

  std::vector<double> frequencies_;
  double amplitude_ = 1;
  Pairs pairs_;
};

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_ROTARY_H_
