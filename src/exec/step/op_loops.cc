// A kernel is a nest of loops over the labels of its result (or of what it
// adds up) with a stride of each array per label: 0 where the array lacks the
// label, so that it is broadcast or summed. What depends on the device is only
// where its part of a dimension begins.
//
//   lookup, rows [4, 8) of 8 here, id 6   ->  row 2 of the part
//   lookup, id 3                          ->  zeros, another device has it
#include "exec/step/op_loops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "exec/attention/rotary.h"
#include "exec/machine/random.h"
#include "exec/step/distance.h"
#include "exec/step/functions.h"
#include "exec/step/nest.h"
#include "exec/step/parts.h"
#include "exec/step/slopes.h"
#include "source/index.h"

namespace shardc::exec {
namespace {

using step::LabelId;
using step::OpKind;

int64_t SizeOf(const LocalOp& local, LabelId label) {
  return (*local.sizes)[AsIndex(label)];
}

// Runs `f` with the type that the op computes in.
template <class F>
void InType(const LocalOp& local, const F& f) {
  bool wide = local.out->dtype == Dtype::kF64;
  for (const Part& part : local.in) {
    wide = wide || part.buffer->dtype == Dtype::kF64;
  }
  if (wide) {
    f(double{});
  } else {
    f(float{});
  }
}

Shape Along(const Labels& loop, const Part& part) {
  return StridesAlong(loop, *part.labels, part.buffer->shape);
}
Shape AlongOut(const Labels& loop, const LocalOp& local) {
  return StridesAlong(loop, *local.labels, local.out->shape);
}

int64_t StrideOf(const Labels& labels, const Shape& shape, LabelId label) {
  return StridesOf(shape)[DimOf(labels, label)];
}

double ScaleOf(const LocalOp& local) {
  double out = local.op->scale.constant;
  for (const auto& [label, power] : local.op->scale.powers) {
    out *= std::pow(static_cast<double>(SizeOf(local, label)), power);
  }
  return out;
}

template <class T>
void Elementwise(const LocalOp& local) {
  const step::Op& op = *local.op;
  std::vector<Shape> strides = {AlongOut(*local.labels, local)};
  std::vector<std::unique_ptr<Reals<T>>> in;
  for (const Part& part : local.in) {
    strides.push_back(Along(*local.labels, part));
    in.push_back(std::make_unique<Reals<T>>(*part.buffer));
  }
  T* const out = RealData<T>(*local.out);
  const size_t operands = in.size();
  if (op.kind == OpKind::kAdd) {
    for (size_t i = 0; i < operands; ++i) {
      ForNest(local.out->shape, {strides[0], strides[i + 1]}, {},
              [&](const Offsets& at) { out[at[0]] += (*in[i])[at[1]]; });
    }
    return;
  }
  if (op.kind == OpKind::kFn) {
    const StepFunction<T> fn = FindStepFunction<T>(op.fn);
    const T constant = static_cast<T>(op.scale.constant);
    std::array<T, kMostArrays> x{};
    ForNest(local.out->shape, strides, {}, [&](const Offsets& at) {
      for (size_t i = 0; i < operands; ++i) x[i] = (*in[i])[at[i + 1]];
      out[at[0]] = fn(x.data(), constant);
    });
    return;
  }
  const T scale =
      op.kind == OpKind::kScale ? static_cast<T>(ScaleOf(local)) : T{1};
  ForNest(local.out->shape, strides, {},
          [&](const Offsets& at) { out[at[0]] = (*in[0])[at[1]] * scale; });
}

template <class T>
void Reduction(const LocalOp& local) {
  const Part& part = local.in[0];
  const Reals<T> in(*part.buffer);
  T* const out = RealData<T>(*local.out);
  const bool max = local.op->kind == OpKind::kMax;
  if (max) {
    std::fill_n(out, local.out->Elements(),
                -std::numeric_limits<T>::infinity());
  }
  ForNest(part.buffer->shape,
          {AlongOut(*part.labels, local), Along(*part.labels, part)}, {},
          [&](const Offsets& at) {
            T& to = out[at[0]];
            to = max ? std::max(to, in[at[1]]) : to + in[at[1]];
          });
}

// Strides of the factors of `whole` in an array that holds it as one
// dimension; `sizes` are the factors' local ones.
void FactorStrides(const LocalOp& local, LabelId whole, int64_t stride,
                   const Labels& loop, const Shape& extent, Shape& strides) {
  const std::vector<LabelId>& factors =
      local.graph->labels[AsIndex(whole)].factors;
  for (size_t f = factors.size(); f > 0;) {
    --f;
    const size_t dim = DimOf(loop, factors[f]);
    strides[dim] = stride;
    stride *= extent[dim];
  }
}

int64_t PartBegin(const LocalOp& local, LabelId whole, int64_t index) {
  const std::vector<LabelId>& parts = local.graph->labels[AsIndex(whole)].parts;
  int64_t out = 0;
  for (int64_t i = 0; i < index; ++i) out += SizeOf(local, parts[AsIndex(i)]);
  return out;
}

// Copies between a loop over the smaller array's labels and the other array,
// in which some dimension is found otherwise.
template <class T>
void Reshape(const LocalOp& local) {
  const step::Op& op = *local.op;
  const Part& part = local.in[0];
  const bool to_whole = op.kind == OpKind::kMerge ||
                        op.kind == OpKind::kUnpart ||
                        op.kind == OpKind::kUnindex;
  // The loop runs over `small`, `other` is addressed.
  const Labels& small = to_whole ? *part.labels : *local.labels;
  const Shape& extent = to_whole ? part.buffer->shape : local.out->shape;
  const Labels& other = to_whole ? *local.labels : *part.labels;
  const Shape& other_shape = to_whole ? local.out->shape : part.buffer->shape;
  Shape strides = StridesAlong(small, other, other_shape);
  int64_t base = 0;
  switch (op.kind) {
    case OpKind::kSplit:
    case OpKind::kMerge:
      FactorStrides(local, op.label, StrideOf(other, other_shape, op.label),
                    small, extent, strides);
      break;
    case OpKind::kPart:
    case OpKind::kUnpart: {
      const int64_t stride = StrideOf(other, other_shape, op.label);
      strides[DimOf(small, op.to)] = stride;
      base = PartBegin(local, op.label, op.index) * stride;
      break;
    }
    case OpKind::kIndex:
    case OpKind::kUnindex:
      base = op.index * StrideOf(other, other_shape, op.label);
      break;
    case OpKind::kRename:
      strides[DimOf(small, op.to)] = StrideOf(other, other_shape, op.label);
      break;
    default:
      break;
  }
  const Reals<T> in(*part.buffer);
  T* const out = RealData<T>(*local.out);
  ForNest(extent, {StridesOf(extent), strides}, {0, base},
          [&](const Offsets& at) {
            if (to_whole) {
              out[at[1]] = in[at[0]];
            } else {
              out[at[0]] = in[at[1]];
            }
          });
}

template <class T>
void Heads(const LocalOp& local) {
  const step::Op& op = *local.op;
  const Part& part = local.in[0];
  const bool repeat = op.kind == OpKind::kRepeat;
  const LabelId heads = repeat ? op.to : op.label;
  const LabelId kv = repeat ? op.label : op.to;
  const Labels& loop = repeat ? *local.labels : *part.labels;
  const Shape& extent = repeat ? local.out->shape : part.buffer->shape;
  const Labels& other = repeat ? *part.labels : *local.labels;
  const Shape& other_shape = repeat ? part.buffer->shape : local.out->shape;
  const size_t dim = DimOf(loop, heads);
  const size_t kv_dim = DimOf(other, kv);
  // A kernel that sees slices takes them for all heads.
  const bool slices = op.fn == step::kInSlices;
  const int64_t group =
      slices ? std::max<int64_t>(extent[dim] / other_shape[kv_dim], 1)
             : SizeOf(local, heads) / SizeOf(local, kv);
  const int64_t first = slices ? 0 : (repeat ? local.start : part.start)[dim];
  const int64_t kv_first =
      slices ? 0 : (repeat ? part.start : local.start)[kv_dim];
  const int64_t kv_stride = StridesOf(other_shape)[kv_dim];
  const Shape strides = StridesAlong(loop, other, other_shape);
  // Array 2 counts heads.
  Shape count(loop.size(), 0);
  count[dim] = 1;
  const Reals<T> in(*part.buffer);
  T* const out = RealData<T>(*local.out);
  ForNest(extent, {StridesOf(extent), strides, count}, {0, 0, first},
          [&](const Offsets& at) {
            const int64_t row = at[2] / group - kv_first;
            const int64_t there = at[1] + row * kv_stride;
            if (repeat) {
              out[at[0]] = in[there];
            } else {
              out[there] += in[at[0]];
            }
          });
}

// The dimension that is found by an id: of the table, or of what is written.
template <class T>
void Indexed(const LocalOp& local) {
  const OpKind kind = local.op->kind;
  const bool reads = kind == OpKind::kLookup || kind == OpKind::kPick;
  const size_t ids_at = reads ? 1 : 0;
  const Part& ids = local.in[ids_at];
  const Part& real = local.in[1 - ids_at];
  // Read: over the result, from the table. Written: over what is given.
  const Labels& loop = reads ? *local.labels : *real.labels;
  const Shape& extent = reads ? local.out->shape : real.buffer->shape;
  const Labels& other = reads ? *real.labels : *local.labels;
  const Shape& other_shape = reads ? real.buffer->shape : local.out->shape;
  const size_t dim = DimOf(other, local.op->label);
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
                ids.buffer->whole[AsIndex(at[2])] + local.op->index - first;
            if (row < 0 || row >= rows) return;
            const int64_t there = at[1] + row * stride;
            if (reads) {
              out[at[0]] = in[there];
            } else {
              out[there] += in[at[0]];
            }
          });
}

// Loops over all labels but one: where each line along it begins in the arrays.
template <class F>
void ForLines(const Labels& loop, const Shape& extent, LabelId along,
              std::vector<Shape> strides, const F& body) {
  const size_t dim = DimOf(loop, along);
  Shape lines = extent;
  lines[dim] = 1;
  ForNest(lines, strides, {}, body);
}

RopeFrequencies TableOf(const step::Rope& rope, int64_t size) {
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
  const auto rotated = static_cast<int64_t>(
      std::llround(static_cast<double>(size) * rope.rotary_fraction));
  std::string why;
  return Frequencies(rotated / 2 * 2, rope.base, 0, scaling, why)
      .value_or(RopeFrequencies{});
}

template <class T>
void Rope(const LocalOp& local) {
  const step::Op& op = *local.op;
  const Part &x = local.in[0], &positions = local.in[1];
  const size_t dim = DimOf(*x.labels, op.label);
  const int64_t size = x.buffer->shape[dim];
  const step::Rope& rope = local.graph->ropes[AsIndex(op.index)];
  const RopeFrequencies table = TableOf(rope, size);
  const int64_t rotated = static_cast<int64_t>(table.inverse.size()) * 2;
  const int64_t stride = StridesOf(x.buffer->shape)[dim];
  const bool interleaved = rope.interleaved;
  const Reals<T> in(*x.buffer);
  T* const out = RealData<T>(*local.out);
  ForLines(*x.labels, x.buffer->shape, op.label,
           {StridesOf(x.buffer->shape), Along(*x.labels, positions)},
           [&](const Offsets& at) {
             const double position = positions.buffer->whole[AsIndex(at[1])] *
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

// Of the heads that are here; none where none are asked for.
template <class T>
std::vector<T> SlopesOf(const LocalOp& local) {
  const LabelId label = local.op->label;
  if (label == step::kNoLabel) return {};
  const size_t dim = DimOf(*local.labels, label);
  const int64_t heads = SizeOf(local, label);
  std::vector<T> out;
  for (int64_t i = 0; i < local.out->shape[dim]; ++i) {
    out.push_back(
        static_cast<T>(ScaleOf(local) * SlopeOf(heads, local.start[dim] + i)));
  }
  return out;
}

template <class T>
void Mask(const LocalOp& local) {
  const step::Op& op = *local.op;
  const Part& scores = local.in[0];
  const bool all = op.fn == "all", chunked = op.fn == "chunked";
  const int64_t window =
      op.counts.empty() ? 0 : SizeOf(local, op.counts.front());
  const std::vector<T> slopes = SlopesOf<T>(local);
  // Array 3 counts heads.
  Shape count(scores.labels->size(), 0);
  if (!slopes.empty()) count[DimOf(*scores.labels, op.label)] = 1;
  const Reals<T> in(*scores.buffer);
  T* const out = RealData<T>(*local.out);
  ForNest(scores.buffer->shape,
          {StridesOf(scores.buffer->shape), Along(*scores.labels, local.in[1]),
           Along(*scores.labels, local.in[2]), count},
          {}, [&](const Offsets& at) {
            const int64_t key = local.in[2].buffer->whole[AsIndex(at[2])];
            const int64_t query = local.in[1].buffer->whole[AsIndex(at[1])];
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

// What the chosen of a line are set to.
void SetWhole(Buffer& out, int64_t at, int32_t value) {
  if (out.dtype == Dtype::kF64) {
    out.wide[AsIndex(at)] = value;
  } else if (out.IsReal()) {
    out.real[AsIndex(at)] = static_cast<float>(value);
  } else {
    out.whole[AsIndex(at)] = value;
  }
}

// The places of the `count` largest, the first of equal ones first.
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
            SetWhole(*local.out, at[1] + i * out_stride, 1);
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
            SetWhole(*local.out, at[1] + i * out_stride, 1);
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
                 SetWhole(*local.out,
                          at[1] + i * out_line + place * out_strides[slot], 1);
               }
               ++place;
             }
           });
}

template <class T>
void Dropout(const LocalOp& local) {
  const step::Op& op = *local.op;
  const Part& x = local.in[0];
  Shape global, base;
  for (LabelId label : *x.labels) global.push_back(SizeOf(local, label));
  const Shape strides = StridesOf(global);
  int64_t first = 0;
  for (size_t d = 0; d < global.size(); ++d) first += x.start[d] * strides[d];
  const double rate = op.scale.constant;
  const Random random = Random(static_cast<uint64_t>(op.index)).Split("drop");
  const Reals<T> in(*x.buffer);
  T* const out = RealData<T>(*local.out);
  ForNest(x.buffer->shape, {StridesOf(x.buffer->shape), strides}, {0, first},
          [&](const Offsets& at) {
            const bool keeps =
                random.Uniform(static_cast<uint64_t>(at[1])) >= rate;
            out[at[0]] = keeps ? in[at[0]] / static_cast<T>(1 - rate) : T{0};
          });
}

template <class T>
void CacheWrite(const LocalOp& local) {
  const Part &cache = local.in[0], &fresh = local.in[1],
             &positions = local.in[2];
  LabelId rows = step::kNoLabel;
  for (LabelId label : *cache.labels) {
    if (DimOf(*fresh.labels, label) == kNoDim) rows = label;
  }
  const size_t dim = DimOf(*local.labels, rows);
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
            const int64_t row = positions.buffer->whole[AsIndex(at[2])] - first;
            if (row < 0 || row >= local.out->shape[dim]) return;
            out[at[1] + row * stride] = in[at[0]];
          });
}

template <class T>
void Adam(const LocalOp& local) {
  const step::Op& op = *local.op;
  const step::Adam& adam = local.graph->adam;
  const Reals<T> p(*local.in[0].buffer), g(*local.in[1].buffer),
      m(*local.in[2].buffer), v(*local.in[3].buffer), clip(*local.in[4].buffer);
  T* const out = RealData<T>(*local.out);
  const T beta1 = static_cast<T>(adam.beta1);
  const T beta2 = static_cast<T>(adam.beta2);
  const T correct1 =
      static_cast<T>(1 - std::pow(adam.beta1, static_cast<double>(adam.step)));
  const T correct2 =
      static_cast<T>(1 - std::pow(adam.beta2, static_cast<double>(adam.step)));
  const T rate = static_cast<T>(adam.rate), decay = T(op.scale.constant);
  const T epsilon = static_cast<T>(adam.epsilon);
  for (int64_t i = 0; i < local.out->Elements(); ++i) {
    const T gradient = g[i] * clip[0];
    const T first = beta1 * m[i] + (T{1} - beta1) * gradient;
    const T second = beta2 * v[i] + (T{1} - beta2) * gradient * gradient;
    const T step = first / correct1 / (std::sqrt(second / correct2) + epsilon);
    out[i] = op.index == 0   ? p[i] - rate * (step + decay * p[i])
             : op.index == 1 ? first
                             : second;
  }
}

}  // namespace

#define SHARDC_IN_TYPE(kernel) \
  InType(local, [&](auto type) { kernel<decltype(type)>(local); })

void RunElementwise(const LocalOp& local) { SHARDC_IN_TYPE(Elementwise); }
void RunReduction(const LocalOp& local) { SHARDC_IN_TYPE(Reduction); }
void RunReshape(const LocalOp& local) {
  if (!local.out->IsReal() && !local.out->IsWide()) {
    Reshape<int32_t>(local);
  } else {
    SHARDC_IN_TYPE(Reshape);
  }
}
void RunHeads(const LocalOp& local) { SHARDC_IN_TYPE(Heads); }
void RunIndexed(const LocalOp& local) { SHARDC_IN_TYPE(Indexed); }
void RunRope(const LocalOp& local) { SHARDC_IN_TYPE(Rope); }
void RunMask(const LocalOp& local) { SHARDC_IN_TYPE(Mask); }
void RunDropout(const LocalOp& local) { SHARDC_IN_TYPE(Dropout); }
void RunCacheWrite(const LocalOp& local) { SHARDC_IN_TYPE(CacheWrite); }
void RunAdam(const LocalOp& local) { SHARDC_IN_TYPE(Adam); }
void RunRoll(const LocalOp& local) {
  const Buffer& in = *local.in[0].buffer;
  const size_t dim = DimOf(*local.labels, local.op->label);
  const int64_t rows = in.shape[dim];
  const int64_t first = local.op->sign > 0 ? rows - 1 : 1;
  Buffer begin = SliceDim(in, dim, first, rows - first);
  Buffer end = SliceDim(in, dim, 0, first);
  if (local.op->fn == step::kOpen) {
    Buffer& round = local.op->sign > 0 ? begin : end;
    round = Buffer::Zeros(round.shape, round.dtype);
  }
  *local.out = ConcatDim({&begin, &end}, dim);
}
void RunDistance(const LocalOp& local) {
  const step::Op& op = *local.op;
  const Buffer& queries = *local.in[0].buffer;
  const Buffer& keys = *local.in[1].buffer;
  const int64_t rows = SizeOf(local, op.label);
  const int64_t most = SizeOf(local, op.counts[0]);
  const bool both = op.fn == "both";
  ForNest(local.out->shape,
          {StridesOf(local.out->shape), Along(*local.labels, local.in[0]),
           Along(*local.labels, local.in[1])},
          {}, [&](const Offsets& at) {
            const int64_t behind = int64_t{keys.whole[AsIndex(at[2])]} -
                                   int64_t{queries.whole[AsIndex(at[1])]};
            local.out->whole[AsIndex(at[0])] =
                static_cast<int32_t>(DistanceRow(behind, rows, most, both));
          });
}
void RunRouting(const LocalOp& local) {
  if (local.op->kind == OpKind::kSlots) {
    SHARDC_IN_TYPE(Slots);
  } else {
    SHARDC_IN_TYPE(Choose);
  }
}

#undef SHARDC_IN_TYPE

}  // namespace shardc::exec
