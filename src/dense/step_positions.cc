// The ops of the dense reference that depend on positions: rotary embeddings
// and attention masks. For example, in a causal mask with a window of 4, the
// query at position 9 sees the keys at these positions:
//
//   6, 7, 8 and 9
#include "dense/step_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dense/rotary.h"

namespace shardc::dense {
namespace {

using step::Op;

Rope RopeOf(const step::Rope& from) {
  Rope rope;
  rope.base = from.base;
  rope.stretch = from.scaling == "linear"    ? Stretch::kLinear
                 : from.scaling == "dynamic" ? Stretch::kDynamic
                 : from.scaling == "yarn"    ? Stretch::kYarn
                 : from.scaling == "llama3"  ? Stretch::kLlama3
                                             : Stretch::kNone;
  rope.factor = from.factor;
  rope.original_length = from.original_length;
  rope.fast_turns = from.beta_fast;
  rope.slow_turns = from.beta_slow;
  rope.rounds_outwards = from.truncate;
  rope.low_part = from.low_frequency_factor;
  rope.high_part = from.high_frequency_factor;
  if (from.amplitude > 0) rope.amplitude = from.amplitude;
  return rope;
}

// Returns the ALiBi slope of a head. The bias of a score is the slope times the
// position of the key. If the number n of heads is a power of two, the slopes
// are the geometric sequence 2^(-8/n), 2^(-16/n) and so on. Otherwise let m be
// the largest power of two below n. The first m heads have the slopes of m
// heads. The remaining heads have the first, third, fifth and so on of the
// slopes of 2m heads.
double Slope(int64_t heads, int64_t head) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const bool below = head < power;
  const double base =
      std::pow(2.0, -8.0 / static_cast<double>(below ? power : 2 * power));
  return std::pow(
      base, static_cast<double>(below ? head + 1 : 2 * (head - power) + 1));
}

}  // namespace

template <typename T>
void RunRope(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const auto& [label, rope, sign] = step::As<step::RopeAttributes>(op);
  const step::Rope& from = c.graph.ropes[AsIndex(rope)];
  const int64_t width = c.SizeOf(label);
  const auto pairs = std::max<int64_t>(
      1, std::llround(std::floor(
             static_cast<double>(width) * from.rotary_fraction / 2 + 1e-9)));
  const Rotary rotary(2 * pairs, c.SizeOf(c.graph.common.query), RopeOf(from),
                      from.interleaved ? Pairs::kNeighbours : Pairs::kHalves);
  const StepTensor<T>& x = c.Of(op.in[0]);
  const int64_t step = c.By(op.out, {label})[0];
  Labels rest = c.LabelsOf(op.out);
  rest.erase(std::find(rest.begin(), rest.end(), label));
  out.data = x.data;
  Odometer at(c.Sized(rest), {c.By(op.out, rest), c.By(op.in[1], rest)});
  const int64_t rows = static_cast<int64_t>(x.data.size()) / width;
  for (int64_t i = 0; i < rows; ++i, at.Next()) {
    const auto position =
        static_cast<double>(c.Integer(op.in[1], at.offset(1)));
    for (int64_t p = 0; p < pairs; ++p) {
      const double angle = sign * position * rotary.frequencies()[AsIndex(p)];
      const T cosine = T(std::cos(angle) * rotary.amplitude());
      const T sine = T(std::sin(angle) * rotary.amplitude());
      const int64_t one = from.interleaved ? 2 * p : p;
      const int64_t two = from.interleaved ? 2 * p + 1 : p + pairs;
      const auto first = AsIndex(at.offset(0) + one * step);
      const auto second = AsIndex(at.offset(0) + two * step);
      out.data[first] = x.data[first] * cosine - x.data[second] * sine;
      out.data[second] = x.data[second] * cosine + x.data[first] * sine;
    }
  }
}

template <typename T>
void RunMask(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const Labels& labels = c.LabelsOf(op.out);
  const auto& mask = step::As<step::MaskAttributes>(op);
  const int64_t window = mask.window == step::kNoLabel
                             ? std::numeric_limits<int64_t>::max()
                             : c.SizeOf(mask.window);
  const bool causal = mask.rule != step::MaskRule::kNone;
  const bool chunked = mask.rule == step::MaskRule::kChunked;
  const StepTensor<T>& x = c.Of(op.in[0]);
  const bool sloped = mask.heads != step::kNoLabel;
  Strides heads(labels.size(), 0);
  if (sloped) {
    heads[AsIndex(std::find(labels.begin(), labels.end(), mask.heads) -
                  labels.begin())] = 1;
  }
  Odometer at(out.shape,
              {c.By(op.in[1], labels), c.By(op.in[2], labels), heads});
  for (size_t i = 0; i < out.data.size(); ++i, at.Next()) {
    const int64_t query = c.Integer(op.in[1], at.offset(0));
    const int64_t key = c.Integer(op.in[2], at.offset(1));
    const bool near =
        chunked ? query / window == key / window : query - key < window;
    const bool seen = !causal || (key <= query && near);
    const double slope = sloped ? c.Factor(mask.slope_scale) *
                                      static_cast<double>(key) *
                                      Slope(c.SizeOf(mask.heads), at.offset(2))
                                : 0;
    out.data[i] =
        seen ? x.data[i] + T(slope)
             : T(-std::numeric_limits<typename RealOf<T>::Type>::infinity());
  }
}

SHARDC_DENSE_OP(RunRope)
SHARDC_DENSE_OP(RunMask)

}  // namespace shardc::dense
