// Rotary position embedding (Su and others, 2021), and the ways in which models
// extend it to longer contexts.
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
  // Divides all frequencies by `factor`.
  kLinear,
  // Increases the base for sequences that are longer than the original length.
  kDynamic,
  // Divides by `factor` the frequencies that make few turns over the original
  // length (Rope::slow_turns).
  kYarn,
  // Divides by `factor` the frequencies with long wavelengths (Rope::low_part).
  kLlama3,
};

struct Rope {
  double base = 10000;
  Stretch stretch = Stretch::kNone;
  double factor = 1;
  double original_length = 0;
  // For kYarn. A frequency is kept if it makes more than `fast_turns` turns
  // over the original length, and divided by `factor` if it makes fewer than
  // `slow_turns`. Frequencies between these limits are interpolated. If
  // `rounds_outwards` is true, the index of the first interpolated frequency is
  // rounded down, and the index of the last one is rounded up.
  double fast_turns = 32, slow_turns = 1;
  bool rounds_outwards = true;
  // For kLlama3. A frequency is divided by `factor` if its wavelength is above
  // original length / low_part, and kept if it is below original length /
  // high_part.
  double low_part = 1, high_part = 4;
  // The number by which rotated elements are multiplied. If nullopt, it is 0.1
  // ln(factor) + 1 for kYarn with a factor above 1, and 1 otherwise.
  std::optional<double> amplitude;
};

// The elements of pair i are i and i + dim/2 (kHalves), or 2i and 2i + 1
// (kNeighbours).
enum class Pairs : uint8_t { kHalves, kNeighbours };

// The rotation of heads with `dim` elements. `length` is the largest number of
// tokens in a sequence.
class Rotary {
 public:
  Rotary(int64_t dim, int64_t length, const Rope& rope, Pairs pairs);

  // The angle by which each pair is rotated per position, in radians: [dim/2].
  const std::vector<double>& frequencies() const { return frequencies_; }
  double amplitude() const { return amplitude_; }

  // Rotates the heads of one token in place, and multiplies them by the
  // amplitude. Pair i of a head is rotated by the angle position *
  // frequencies()[i]. amplitude * sin and amplitude * cos are computed in
  // double and rounded to float32; all other arithmetic is in float32.
  void Rotate(int64_t position, std::span<float> heads) const;
  // Element d of a rotated head in double (`at`), and the largest error that
  // the float32 arithmetic of Rotate() may make in it (`off`).
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
