// Kernels of expert routing: the best experts or groups of a token, and the
// places of tokens in experts' queues. Results are 0 or 1.
//
//   top 2 of scores [3, 1, 3, 2] -> [1, 0, 1, 0]; of equal scores the first
//   wins
#include "exec/step/kernels.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "exec/step/kernel.h"

namespace shardc::exec {
namespace {

using step::LabelId;
using step::OpKind;

// Sets an element of a buffer of any type.
void SetInteger(Buffer& out, int64_t at, int32_t value) {
  if (out.dtype == Dtype::kF64) {
    out.wide[AsIndex(at)] = value;
  } else if (out.IsReal()) {
    out.real[AsIndex(at)] = static_cast<float>(value);
  } else {
    out.whole[AsIndex(at)] = value;
  }
}

// Returns the places of the `count` largest; of equal numbers the first counts.
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
T Weight(const step::Op& op, const std::vector<T>& line, size_t begin,
         size_t size) {
  std::vector<T> group(line.begin() + static_cast<int64_t>(begin),
                       line.begin() + static_cast<int64_t>(begin + size));
  std::sort(group.begin(), group.end(), std::greater<>());
  return op.fn == "top2" && size > 1 ? group[0] + group[1] : group[0];
}

template <class T>
void Choose(const LocalOp& local) {
  const step::Op& op = *local.op;
  const Part& scores = local.in[0];
  const size_t dim = DimOf(*scores.labels, op.label);
  const int64_t size = scores.buffer->shape[dim];
  const int64_t stride = StridesOf(scores.buffer->shape)[dim];
  const Reals<T> in(*scores.buffer);
  ForLines(
      *scores.labels, scores.buffer->shape, op.label,
      {StridesOf(scores.buffer->shape), AlongOut(*scores.labels, local)},
      [&](const Offsets& at) {
        const int64_t out_stride =
            StrideOf(*local.labels, local.out->shape, op.label);
        std::vector<T> line;
        for (int64_t i = 0; i < size; ++i) {
          line.push_back(in[at[0] + i * stride]);
        }
        if (op.kind == OpKind::kTopK) {
          for (int64_t i : Largest(line, SizeOf(local, op.counts[0]))) {
            SetInteger(*local.out, at[1] + i * out_stride, 1);
          }
          return;
        }
        const int64_t groups = SizeOf(local, op.counts[0]);
        const int64_t each = size / groups;
        std::vector<T> weights;
        for (int64_t g = 0; g < groups; ++g) {
          weights.push_back(Weight(op, line, AsIndex(g * each), AsIndex(each)));
        }
        for (int64_t g : Largest(weights, SizeOf(local, op.counts[1]))) {
          for (int64_t i = g * each; i < (g + 1) * each; ++i) {
            SetInteger(*local.out, at[1] + i * out_stride, 1);
          }
        }
      });
}

template <class T>
void Slots(const LocalOp& local) {
  const step::Op& op = *local.op;
  const LabelId tokens = local.graph->common.query;
  const Part& chosen = local.in[0];
  const size_t dim = DimOf(*chosen.labels, tokens);
  const int64_t stride = StridesOf(chosen.buffer->shape)[dim];
  const size_t slot = DimOf(*local.labels, op.to);
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

SHARDC_KERNEL(RunChoice, Choose)
SHARDC_KERNEL(RunSlots, Slots)

}  // namespace shardc::exec
