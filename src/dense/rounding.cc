// Rounds a double to the nearest number of a narrower dtype, ties to even. Half
// a unit of the last kept bit is added to the bits of the double (minus 1 if
// the last kept bit is 0). Then the lower bits are dropped. For example:
//
//   BF16 keeps 7 of 52 bits after the point. 1 + 2^-8 is a tie and becomes 1;
//   numbers between 1 + 2^-8 and 1 + 3 * 2^-8 become 1 + 2^-7
//
// The subnormal numbers of a dtype are multiples of one step. A number below
// the smallest normal number is therefore rounded to a multiple of this step.
#include "dense/rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace shardc::dense {
namespace {

struct Format {
  int cut;        // number of mantissa bits of a double that are dropped
  double normal;  // the smallest positive normal number
  double step;    // the distance between two subnormal numbers
  double most;    // the largest finite number
};
constexpr Format kF16 = {42, 0x1p-14, 0x1p-24, 65504};
constexpr Format kBF16 = {45, 0x1p-126, 0x1p-133, 0x1.fep127};
constexpr Format kF32 = {29, 0x1p-126, 0x1p-149, 0x1.fffffep127};

double NearestIn(const Format& format, double x) {
  const double size = std::fabs(x);
  if (!(size < std::numeric_limits<double>::infinity())) return x;
  if (size < format.normal) {
    return std::copysign(std::nearbyint(size / format.step) * format.step, x);
  }
  const auto bits = std::bit_cast<uint64_t>(size);
  const uint64_t unit = uint64_t{1} << format.cut;
  const uint64_t half = unit / 2 - 1 + ((bits >> format.cut) & 1);
  const auto cut = std::bit_cast<double>((bits + half) & ~(unit - 1));
  const double out =
      cut > format.most ? std::numeric_limits<double>::infinity() : cut;
  return std::copysign(out, x);
}

float Single(double x) { return static_cast<float>(NearestIn(kF32, x)); }

}  // namespace

double Nearest(Dtype dtype, double x) {
  switch (dtype) {
    case Dtype::kF16:
      return NearestIn(kF16, x);
    case Dtype::kBF16:
      return NearestIn(kBF16, x);
    case Dtype::kF32:
      return NearestIn(kF32, x);
    default:
      return x;
  }
}

void NearestOf(Dtype dtype, std::span<float> x) {
  if (dtype != Dtype::kF16 && dtype != Dtype::kBF16) return;
  const Format& format = dtype == Dtype::kF16 ? kF16 : kBF16;
  for (float& value : x) {
    value = static_cast<float>(NearestIn(format, double{value}));
  }
}

float ToInt8(std::span<const float> x, std::span<int8_t> integers) {
  double largest = 0;
  for (float value : x) {
    const double magnitude = std::fabs(double{value});
    if (std::isnan(magnitude) || magnitude > largest) largest = magnitude;
    if (std::isnan(largest)) break;
  }
  std::fill(integers.begin(), integers.end(), int8_t{0});
  if (largest == 0 || !std::isfinite(largest)) {
    return static_cast<float>(largest);
  }
  // A step is largest / 127.5. There are `steps` steps from 0 to 1, so a number
  // x becomes x * `steps` steps. If `steps` overflows float32, x * 127.5 /
  // largest is computed in double instead.
  const double steps = NearestIn(kF32, 127.5 / largest);
  for (size_t i = 0; i < x.size(); ++i) {
    const double count = std::isfinite(steps)
                             ? NearestIn(kF32, double{x[i]} * steps)
                             : double{x[i]} * 127.5 / largest;
    const double whole = std::nearbyint(count);
    integers[i] = static_cast<int8_t>(whole > 127 ? 127 : whole);
  }
  return static_cast<float>(largest);
}

float FromInt8(int8_t integer, float scale) {
  return Single(double{Single(static_cast<double>(integer) * double{scale})} /
                127.5);
}

void StoreInt8(std::span<float> x) {
  std::vector<int8_t> integers(x.size());
  const float scale = ToInt8(x, integers);
  for (size_t i = 0; i < x.size(); ++i) x[i] = FromInt8(integers[i], scale);
}

}  // namespace shardc::dense
