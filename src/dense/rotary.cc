// Computes rotary position embeddings. The elements of a head form pairs. Pair
// i at position p is a vector (x, y), which is rotated by the angle a = p *
// base^(-2i/dim):
//
//   x cos a - y sin a,  y cos a + x sin a
//
// For example, with dim 4 and base 100, pair 0 at position 3 is rotated by 3
// radians, and pair 1 by 0.3.
//
// A model whose context was extended has lower frequencies (angles per
// position). kLinear divides all frequencies by `factor`, and kDynamic
// increases the base. kYarn and kLlama3 divide only low frequencies, which make
// few turns over the original length. They keep high frequencies, and
// interpolate in between.
#include "dense/rotary.h"

#include <algorithm>
#include <cmath>

#include "dense/array.h"
#include "source/size.h"

namespace shardc::dense {
namespace {

constexpr double kFullCircle = 2 * 3.14159265358979323846;

// Interpolates between the frequency f (if `keep` is 1) and f / factor (if
// `keep` is 0).
double Between(double f, double factor, double keep) {
  keep = std::clamp(keep, 0.0, 1.0);
  return keep * f + (1 - keep) * f / factor;
}

// Returns the index i, which may be a fraction, of the frequency base^(-2i/dim)
// that makes `turns` turns over `length` positions.
double NumberOf(double turns, double length, double base, double dim) {
  return dim / 2 * std::log(length / (kFullCircle * turns)) / std::log(base);
}

double YarnKeeps(double i, double dim, const Rope& rope) {
  double first =
      NumberOf(rope.fast_turns, rope.original_length, rope.base, dim);
  double last = NumberOf(rope.slow_turns, rope.original_length, rope.base, dim);
  if (rope.rounds_outwards) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, dim - 1);
  if (first == last) last += 0.001;
  return 1 - (i - first) / (last - first);
}

double Llama3Keeps(double f, const Rope& rope) {
  const double parts = rope.original_length * f / kFullCircle;
  return (parts - rope.low_part) / (rope.high_part - rope.low_part);
}

double DynamicBase(double dim, double length, const Rope& rope) {
  const double original =
      rope.original_length > 0 ? rope.original_length : length;
  if (length <= original) return rope.base;
  const double more = rope.factor * length / original - (rope.factor - 1);
  return rope.base * std::pow(more, dim / (dim - 2));
}

}  // namespace

Rotary::Rotary(int64_t dim, int64_t length, const Rope& rope, Pairs pairs)
    : pairs_(pairs) {
  const auto size = static_cast<double>(dim);
  const double base = rope.stretch == Stretch::kDynamic
                          ? DynamicBase(size, static_cast<double>(length), rope)
                          : rope.base;
  for (int64_t i = 0; i < dim / 2; ++i) {
    const auto number = static_cast<double>(i);
    double f = 1 / std::pow(base, 2 * number / size);
    if (rope.stretch == Stretch::kLinear) f = Between(f, rope.factor, 0);
    if (rope.stretch == Stretch::kYarn) {
      f = Between(f, rope.factor, YarnKeeps(number, size, rope));
    }
    if (rope.stretch == Stretch::kLlama3) {
      f = Between(f, rope.factor, Llama3Keeps(f, rope));
    }
    frequencies_.push_back(f);
  }
  if (rope.stretch == Stretch::kYarn && rope.factor > 1) {
    amplitude_ = 1 + std::log(rope.factor) / 10;
  }
  amplitude_ = rope.amplitude.value_or(amplitude_);
}

int64_t Rotary::Partner(int64_t d) const {
  const auto half = static_cast<int64_t>(frequencies_.size());
  if (pairs_ == Pairs::kHalves) return d < half ? d + half : d - half;
  return d % 2 == 0 ? d + 1 : d - 1;
}

void Rotary::Rotate(int64_t position, std::span<float> heads) const {
  const size_t half = frequencies_.size();
  const bool halves = pairs_ == Pairs::kHalves;
  for (size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * frequencies_[i];
    const auto sin = static_cast<float>(amplitude_ * std::sin(angle));
    const auto cos = static_cast<float>(amplitude_ * std::cos(angle));
    const size_t first = halves ? i : 2 * i;
    const size_t second = halves ? i + half : 2 * i + 1;
    for (size_t head = 0; head < heads.size(); head += 2 * half) {
      const float x = heads[head + first], y = heads[head + second];
      heads[head + first] = x * cos - y * sin;
      heads[head + second] = y * cos + x * sin;
    }
  }
}

Rotary::RotatedValue Rotary::RotatedElement(int64_t position,
                                            std::span<const float> head,
                                            int64_t d) const {
  const auto half = static_cast<int64_t>(frequencies_.size());
  const bool halves = pairs_ == Pairs::kHalves;
  const bool first = halves ? d < half : d % 2 == 0;
  const double f = frequencies_[AsIndex(halves ? d % half : d / 2)];
  const double angle = static_cast<double>(position) * f;
  const double x = head[AsIndex(d)], y = head[AsIndex(Partner(d))];
  const double turned =
      x * std::cos(angle) + (first ? -y : y) * std::sin(angle);
  // `off` bounds the relative error: 4 roundoffs for sin, cos, the products and
  // their sum, and the error of the angle, which is computed in double.
  const double off = 4 * kUnit + std::fabs(angle) * 0x1p-50;
  return {amplitude_ * turned,
          amplitude_ * off * (std::fabs(x) + std::fabs(y)) + 0x1p-149};
}

}  // namespace shardc::dense
