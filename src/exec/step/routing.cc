// Kernels that route tokens to experts. For each token, they choose the
// experts, or the groups of experts, with the highest scores. They also compute
// the place of each token in the queue of its expert. All results are 0 or 1,
// such as 1 for a chosen expert. Of equal scores, the first is chosen. For
// example:
//
//   scores [3, 1, 3, 2]: top 1 -> [1, 0, 0, 0], top 2 -> [1, 0, 1, 0]
#include "exec/step/kernel.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace shardc::exec {
namespace {

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

}  // namespace shardc::exec
