// Kernels that depend on the positions of tokens: rotary embeddings and
// attention masks. A kernel gets the positions as an operand, so a device needs
// only the positions of its own tokens. For example:
//
//   causal mask, query at 5, key at 6: minus infinity
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "exec/attention/rotary.h"
#include "exec/step/kernel.h"
#include "exec/step/positions.h"
#include "model/legal_sizes.h"

namespace shardc::exec {

double AlibiSlope(int64_t heads, int64_t head) {
  const auto floor =
      static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  if (head < floor) {
    return std::exp2(-8.0 * static_cast<double>(head + 1) /
                     static_cast<double>(floor));
  }
  return std::exp2(-8.0 * static_cast<double>(2 * (head - floor) + 1) /
                   static_cast<double>(2 * floor));
}

RopeFrequencies RopeTable(const step::Rope& rope, int64_t size,
                          int64_t tokens) {
  RopeScaling scaling;
  scaling.kind = ParseRopeKind(rope.scaling).value_or(RopeKind::kNone);
  scaling.factor = rope.factor;
  scaling.original_length = static_cast<int64_t>(rope.original_length);
  scaling.beta_fast = rope.beta_fast;
  scaling.beta_slow = rope.beta_slow;
  scaling.truncate = rope.truncate;
  scaling.low_frequency_factor = rope.low_frequency_factor;
  scaling.high_frequency_factor = rope.high_frequency_factor;
  if (rope.amplitude != 0) scaling.attention_factor = rope.amplitude;
  // A step is verified with smaller sizes than the model's. The rotated part of
  // a head may then be less than a pair of elements, or end inside a pair. The
  // number of pairs is rounded down, but is at least 1.
  const int64_t pairs =
      std::max<int64_t>(1, RotaryDim(size, rope.rotary_fraction) / 2);
  // If there is only one pair, its frequency is 1 for any base. A scaling that
  // changes the base is therefore ignored.
  if (pairs == 1 && scaling.kind == RopeKind::kDynamic) {
    scaling.kind = RopeKind::kNone;
  }
  std::string why;
  return Frequencies(2 * pairs, rope.base, tokens, scaling, why)
      .value_or(RopeFrequencies{});
}

namespace {

using step::LabelId;

template <class T>
void Rope(const LocalOp& local) {
  const auto& op = step::As<step::RopeAttributes>(*local.op);
  const Part &x = local.in[0], &positions = local.in[1];
  const size_t dim = DimOf(*x.labels, op.label);
  const int64_t size = x.buffer->shape[dim];
  const step::Rope& rope = local.graph->ropes[AsIndex(op.rope)];
  const RopeFrequencies table =
      RopeTable(rope, size, SizeOf(local, local.graph->common.query));
  const int64_t rotated = static_cast<int64_t>(table.inverse.size()) * 2;
  const int64_t stride = StridesOf(x.buffer->shape)[dim];
  const bool interleaved = rope.interleaved;
  const Reals<T> in(*x.buffer);
  T* const out = RealData<T>(*local.out);
  ForLines(*x.labels, x.buffer->shape, op.label,
           {StridesOf(x.buffer->shape), Along(*x.labels, positions)},
           [&](const Offsets& at) {
             const double position =
                 positions.buffer->integers[AsIndex(at[1])] *
                 static_cast<double>(op.sign);
             for (int64_t i = 0; i < rotated / 2; ++i) {
               const double angle = position * table.inverse[AsIndex(i)];
               const T c = static_cast<T>(std::cos(angle) * table.amplitude);
               const T s = static_cast<T>(std::sin(angle) * table.amplitude);
               const int64_t first = at[0] + (interleaved ? 2 * i : i) * stride;
               const int64_t second =
                   at[0] + (interleaved ? 2 * i + 1 : i + rotated / 2) * stride;
               out[first] = in[first] * c - in[second] * s;
               out[second] = in[second] * c + in[first] * s;
             }
             for (int64_t i = rotated; i < size; ++i) {
               out[at[0] + i * stride] = in[at[0] + i * stride];
             }
           });
}

// Returns the ALiBi slopes of this device's heads, or an empty list if the op
// has no slopes.
template <class T>
std::vector<T> SlopesOf(const LocalOp& local,
                        const step::MaskAttributes& mask) {
  const LabelId label = mask.heads;
  if (label == step::kNoLabel) return {};
  const size_t dim = DimOf(*local.labels, label);
  const int64_t heads = SizeOf(local, label);
  const double factor = ScaleOf(local, mask.slope_scale);
  std::vector<T> out;
  for (int64_t i = 0; i < local.out->shape[dim]; ++i) {
    out.push_back(
        static_cast<T>(factor * AlibiSlope(heads, local.start[dim] + i)));
  }
  return out;
}

template <class T>
void Mask(const LocalOp& local) {
  const auto& mask = step::As<step::MaskAttributes>(*local.op);
  const Part& scores = local.in[0];
  const bool all = mask.rule == step::MaskRule::kNone;
  const bool chunked = mask.rule == step::MaskRule::kChunked;
  const int64_t window =
      mask.window == step::kNoLabel ? 0 : SizeOf(local, mask.window);
  const std::vector<T> slopes = SlopesOf<T>(local, mask);
  // ForNest computes an element's offset in each array from strides. With
  // stride 1 along the heads and 0 along all other dimensions, the offset is
  // the index of the head. These strides are therefore passed as a fourth
  // array.
  Shape count(scores.labels->size(), 0);
  if (!slopes.empty()) count[DimOf(*scores.labels, mask.heads)] = 1;
  const Reals<T> in(*scores.buffer);
  T* const out = RealData<T>(*local.out);
  ForNest(scores.buffer->shape,
          {StridesOf(scores.buffer->shape), Along(*scores.labels, local.in[1]),
           Along(*scores.labels, local.in[2]), count},
          {}, [&](const Offsets& at) {
            const int64_t key = local.in[2].buffer->integers[AsIndex(at[2])];
            const int64_t query = local.in[1].buffer->integers[AsIndex(at[1])];
            const bool near =
                window == 0 || (chunked ? key / window == query / window
                                        : query - key < window);
            const bool seen = all || (key <= query && near);
            T score = in[at[0]];
            if (!slopes.empty()) {
              score += slopes[AsIndex(at[3])] * static_cast<T>(key);
            }
            out[at[0]] = seen ? score : -std::numeric_limits<T>::infinity();
          });
}

}  // namespace

SHARDC_KERNEL(RunRope, Rope)
SHARDC_KERNEL(RunMask, Mask)

}  // namespace shardc::exec
