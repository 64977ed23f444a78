// Kernels that find rows of a table by ids or positions, and the kernel that
// computes the rows of a position bias. An id is the number of a row of the
// unsharded table. A device subtracts the number of its first row, and skips
// the ids of rows that other devices hold. For a skipped id, a lookup returns
// zeros. The sum of the devices' results is therefore the unsharded result. For
// example:
//
//   lookup, rows [4, 8) of 8 on this device: id 6 reads row 2 of the part,
//   id 3 gives zeros
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "exec/attention/rotary.h"
#include "exec/step/kernel.h"
#include "model/legal_sizes.h"

namespace shardc::exec {
namespace {

// Computes relative position buckets, as in T5. A table of position biases has
// rows, and each distance between a key and its query belongs to one row. A row
// is for one distance or for a range of distances.
//
// Without `both`, all rows are for keys that are not after the query. With
// `both`, the first half of the rows is for such keys, and the second half is
// for keys after the query. Let n be the number of rows for one direction. The
// first n/2 of these rows belong to the distances 0 to n/2 - 1. Each later row
// belongs to a range of distances, and the ranges grow by a constant factor
// from row to row. All distances from `most` on belong to the last row. For
// example:
//
//   8 rows, most 16:  distance 3 -> row 3, 4 and 5 -> row 4, 16 -> row 7

// Returns the row for a key that is `behind` places after its query, or before
// it if `behind` is negative. Without `both`, keys after the query have row 0,
// like the key at the query's own position.
inline int64_t DistanceRow(int64_t behind, int64_t rows, int64_t most,
                           bool both) {
  const int64_t side = both ? rows / 2 : rows;
  const int64_t begin = both && behind > 0 ? side : 0;
  const int64_t distance =
      both && behind > 0 ? behind : std::max<int64_t>(-behind, 0);
  const int64_t near = side / 2;
  if (distance < near) return begin + distance;
  if (near == 0 || distance >= most) return begin + side - 1;
  const double of_far =
      std::log(static_cast<double>(distance) / static_cast<double>(near)) /
      std::log(static_cast<double>(most) / static_cast<double>(near));
  const auto far =
      static_cast<int64_t>(of_far * static_cast<double>(side - near));
  return begin + std::min(near + far, side - 1);
}

using step::OpKind;

// Returns the label of the dimension that the ids index, and the number that is
// added to each id.
step::LookupAttributes RowsOf(const step::Op& op) {
  const auto* const rows = std::get_if<step::LookupAttributes>(&op.attributes);
  if (rows != nullptr) return *rows;
  return {step::As<step::LabelAttributes>(op).label, 0};
}

// Lookup and pick read the rows that the ids select. Scatter and place add to
// these rows.
template <class T>
void Indexed(const LocalOp& local) {
  const OpKind kind = local.op->kind;
  const bool reads = kind == OpKind::kLookup || kind == OpKind::kPick;
  const size_t ids_at = reads ? 1 : 0;
  const Part& ids = local.in[ids_at];
  const Part& real = local.in[1 - ids_at];
  // If rows are read, the loop runs over the result. If rows are written, it
  // runs over the operand.
  const Labels& loop = reads ? *local.labels : *real.labels;
  const Shape& extent = reads ? local.out->shape : real.buffer->shape;
  const Labels& other = reads ? *real.labels : *local.labels;
  const Shape& other_shape = reads ? real.buffer->shape : local.out->shape;
  const step::LookupAttributes rows_of = RowsOf(*local.op);
  const size_t dim = DimOf(other, rows_of.rows);
  const int64_t first = (reads ? real.start : local.start)[dim];
  const int64_t rows = other_shape[dim];
  const int64_t stride = StridesOf(other_shape)[dim];
  const Reals<T> in(*real.buffer);
  T* const out = RealData<T>(*local.out);
  ForNest(extent,
          {StridesOf(extent), StridesAlong(loop, other, other_shape),
           Along(loop, ids)},
          {}, [&](const Offsets& at) {
            const int64_t row =
                ids.buffer->integers[AsIndex(at[2])] + rows_of.offset - first;
            if (row < 0 || row >= rows) return;
            const int64_t there = at[1] + row * stride;
            if (reads) {
              out[at[0]] = in[there];
            } else {
              out[there] += in[at[0]];
            }
          });
}

template <class T>
void CacheWrite(const LocalOp& local) {
  const Part &cache = local.in[0], &fresh = local.in[1],
             &positions = local.in[2];
  const size_t dim =
      DimOf(*local.labels, step::As<step::LabelAttributes>(*local.op).label);
  const int64_t first = local.start[dim];
  const int64_t stride = StridesOf(local.out->shape)[dim];
  const Reals<T> old(*cache.buffer), in(*fresh.buffer);
  T* const out = RealData<T>(*local.out);
  ForNest(local.out->shape,
          {StridesOf(local.out->shape), Along(*local.labels, cache)}, {},
          [&](const Offsets& at) { out[at[0]] = old[at[1]]; });
  ForNest(fresh.buffer->shape,
          {StridesOf(fresh.buffer->shape), AlongOut(*fresh.labels, local),
           Along(*fresh.labels, positions)},
          {}, [&](const Offsets& at) {
            const int64_t row =
                positions.buffer->integers[AsIndex(at[2])] - first;
            if (row < 0 || row >= local.out->shape[dim]) return;
            out[at[1] + row * stride] = in[at[0]];
          });
}

}  // namespace

SHARDC_KERNEL(RunIndexed, Indexed)
SHARDC_KERNEL(RunCacheWrite, CacheWrite)

void RunDistance(const LocalOp& local) {
  const auto& distance = step::As<step::DistanceAttributes>(*local.op);
  const Buffer& queries = *local.in[0].buffer;
  const Buffer& keys = *local.in[1].buffer;
  const int64_t rows = SizeOf(local, distance.rows);
  const int64_t most = SizeOf(local, distance.longest);
  const bool both = distance.both_sides;
  ForNest(local.out->shape,
          {StridesOf(local.out->shape), Along(*local.labels, local.in[0]),
           Along(*local.labels, local.in[1])},
          {}, [&](const Offsets& at) {
            const int64_t behind = int64_t{keys.integers[AsIndex(at[2])]} -
                                   int64_t{queries.integers[AsIndex(at[1])]};
            local.out->integers[AsIndex(at[0])] =
                static_cast<int32_t>(DistanceRow(behind, rows, most, both));
          });
}

namespace {

// Kernels that route tokens to experts. For each token, they choose the
// experts, or the groups of experts, with the highest scores. They also compute
// the place of each token in the queue of its expert. All results are 0 or 1,
// such as 1 for a chosen expert. Of equal scores, the first is chosen. For
// example:
//
//   scores [3, 1, 3, 2]: top 1 -> [1, 0, 0, 0], top 2 -> [1, 0, 1, 0]

using step::LabelId;

// Sets an element of a buffer of any dtype to `value`.
void SetInteger(Buffer& out, int64_t at, int32_t value) {
  if (out.dtype == Dtype::kF64) {
    out.wide[AsIndex(at)] = value;
  } else if (out.IsReal()) {
    out.real[AsIndex(at)] = static_cast<float>(value);
  } else {
    out.integers[AsIndex(at)] = value;
  }
}

// Returns the indices of the `count` largest numbers. Of equal numbers, the
// first are returned.
template <class T>
std::vector<int64_t> Largest(const std::vector<T>& line, int64_t count) {
  std::vector<int64_t> order(line.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return line[AsIndex(a)] > line[AsIndex(b)];
  });
  order.resize(
      AsIndex(std::min<int64_t>(count, static_cast<int64_t>(line.size()))));
  return order;
}

template <class T>
T ScoreOf(step::GroupScore score, const std::vector<T>& line, size_t begin,
          size_t size) {
  std::vector<T> group(line.begin() + static_cast<int64_t>(begin),
                       line.begin() + static_cast<int64_t>(begin + size));
  std::sort(group.begin(), group.end(), std::greater<>());
  const bool two = score == step::GroupScore::kTop2 && size > 1;
  return two ? group[0] + group[1] : group[0];
}

// Calls `chosen` with the scores of each token. Writes 1 for each expert that
// `chosen` returns.
template <class T, class F>
void Choose(const LocalOp& local, LabelId experts, const F& chosen) {
  const Part& scores = local.in[0];
  const int64_t size = scores.buffer->shape[DimOf(*scores.labels, experts)];
  const int64_t stride =
      StrideOf(*scores.labels, scores.buffer->shape, experts);
  const int64_t out_stride = StrideOf(*local.labels, local.out->shape, experts);
  const Reals<T> in(*scores.buffer);
  std::vector<T> line(AsIndex(size));
  ForLines(*scores.labels, scores.buffer->shape, experts,
           {StridesOf(scores.buffer->shape), AlongOut(*scores.labels, local)},
           [&](const Offsets& at) {
             for (int64_t i = 0; i < size; ++i) {
               line[AsIndex(i)] = in[at[0] + i * stride];
             }
             for (int64_t i : chosen(line)) {
               SetInteger(*local.out, at[1] + i * out_stride, 1);
             }
           });
}

template <class T>
void TopK(const LocalOp& local) {
  const auto& best = step::As<step::TopKAttributes>(*local.op);
  const int64_t count = SizeOf(local, best.chosen);
  Choose<T>(local, best.experts,
            [&](const std::vector<T>& line) { return Largest(line, count); });
}

template <class T>
void TopGroups(const LocalOp& local) {
  const auto& best = step::As<step::TopGroupsAttributes>(*local.op);
  const int64_t groups = SizeOf(local, best.groups);
  const int64_t count = SizeOf(local, best.chosen);
  Choose<T>(local, best.experts, [&](const std::vector<T>& line) {
    const int64_t each = static_cast<int64_t>(line.size()) / groups;
    std::vector<T> scores;
    for (int64_t g = 0; g < groups; ++g) {
      scores.push_back(
          ScoreOf(best.score, line, AsIndex(g * each), AsIndex(each)));
    }
    std::vector<int64_t> out;
    for (int64_t g : Largest(scores, count)) {
      for (int64_t i = g * each; i < (g + 1) * each; ++i) out.push_back(i);
    }
    return out;
  });
}

template <class T>
void Slots(const LocalOp& local) {
  const LabelId slots = step::As<step::SlotsAttributes>(*local.op).slots;
  const LabelId tokens = local.graph->common.query;
  const Part& chosen = local.in[0];
  const size_t dim = DimOf(*chosen.labels, tokens);
  const int64_t stride = StridesOf(chosen.buffer->shape)[dim];
  const size_t slot = DimOf(*local.labels, slots);
  const Shape out_strides = StridesOf(local.out->shape);
  const int64_t out_line = out_strides[DimOf(*local.labels, tokens)];
  const Reals<T> in(*chosen.buffer);
  ForLines(*chosen.labels, chosen.buffer->shape, tokens,
           {StridesOf(chosen.buffer->shape), AlongOut(*chosen.labels, local)},
           [&](const Offsets& at) {
             int64_t place = -local.start[slot];
             for (int64_t i = 0; i < chosen.buffer->shape[dim]; ++i) {
               if (in[at[0] + i * stride] == T{0}) continue;
               if (place >= 0 && place < local.out->shape[slot]) {
                 SetInteger(*local.out,
                            at[1] + i * out_line + place * out_strides[slot],
                            1);
               }
               ++place;
             }
           });
}

}  // namespace

SHARDC_KERNEL(RunTopGroups, TopGroups)
SHARDC_KERNEL(RunTopK, TopK)
SHARDC_KERNEL(RunSlots, Slots)

// Kernels that depend on the positions of tokens: rotary embeddings and
// attention masks. A kernel gets the positions as an operand, so a device needs
// only the positions of its own tokens. For example:
//
//   causal mask, query at 5, key at 6: minus infinity

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
