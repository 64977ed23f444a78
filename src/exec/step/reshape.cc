// Kernels that move elements within a device: dimensions are split, merged,
// divided into parts, indexed, renamed, repeated for heads and rolled. Operand
// and result differ in the size or number of dimensions. The loop runs over the
// array with the smaller dimensions, for example the one with the factors of a
// split dimension. The other array is addressed by strides and an offset.
//
// For example, dimension (c+r) of size 6 is the concatenation of c, size 4, and
// r, size 2. To read r, the loop begins at index 4 of (c+r) and advances by the
// stride of (c+r).
#include "exec/step/kernel.h"

#include <algorithm>
#include <vector>

namespace shardc::exec {
namespace {

using step::LabelId;
using step::OpKind;

// The dimension `whole` of an array is split into factors, whose local sizes
// are in `extent`. Sets the strides by which a loop over the factors moves
// through the array, where `whole` has the stride `stride`.
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

// Copies the elements from the operand to the result. The loop runs over the
// labels of `small`, the array with the smaller dimensions. The other array is
// read or written at `base` plus the loop's indices times `strides`.
template <class T>
void Reshape(const LocalOp& local) {
  const step::Op& op = *local.op;
  const Part& part = local.in[0];
  const bool to_merged = op.kind == OpKind::kMerge ||
                         op.kind == OpKind::kUnpart ||
                         op.kind == OpKind::kUnindex;
  const Labels& small = to_merged ? *part.labels : *local.labels;
  const Shape& extent = to_merged ? part.buffer->shape : local.out->shape;
  const Labels& other = to_merged ? *local.labels : *part.labels;
  const Shape& other_shape = to_merged ? local.out->shape : part.buffer->shape;
  Shape strides = StridesAlong(small, other, other_shape);
  int64_t base = 0;
  switch (op.kind) {
    case OpKind::kSplit:
    case OpKind::kMerge: {
      const LabelId whole = step::As<step::LabelAttributes>(op).label;
      FactorStrides(local, whole, StrideOf(other, other_shape, whole), small,
                    extent, strides);
      break;
    }
    case OpKind::kPart:
    case OpKind::kUnpart: {
      const auto& [whole, piece, number] = step::As<step::PartAttributes>(op);
      const int64_t stride = StrideOf(other, other_shape, whole);
      strides[DimOf(small, piece)] = stride;
      base = PartBegin(local, whole, number) * stride;
      break;
    }
    case OpKind::kIndex:
    case OpKind::kUnindex: {
      const auto& [label, row] = step::As<step::IndexAttributes>(op);
      const size_t dim = DimOf(other, label);
      const int64_t at = (row < 0 ? SizeOf(local, label) + row : row) -
                         (to_merged ? local.start : part.start)[dim];
      // A device without the row returns zeros.
      if (at < 0 || at >= other_shape[dim]) return;
      base = at * StrideOf(other, other_shape, label);
      break;
    }
    case OpKind::kRename: {
      const auto& [from, to] = step::As<step::RenameAttributes>(op);
      strides[DimOf(small, to)] = StrideOf(other, other_shape, from);
      break;
    }
    default:
      break;
  }
  const Reals<T> in(*part.buffer);
  T* const out = RealData<T>(*local.out);
  ForNest(extent, {StridesOf(extent), strides}, {0, base},
          [&](const Offsets& at) {
            if (to_merged) {
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
  const auto& names = step::As<step::HeadGroupAttributes>(op);
  const LabelId heads = names.query_heads, kv = names.kv_heads;
  const Labels& loop = repeat ? *local.labels : *part.labels;
  const Shape& extent = repeat ? local.out->shape : part.buffer->shape;
  const Labels& other = repeat ? *part.labels : *local.labels;
  const Shape& other_shape = repeat ? part.buffer->shape : local.out->shape;
  const size_t dim = DimOf(loop, heads);
  const size_t kv_dim = DimOf(other, kv);
  // If `in_slices` is set, heads are grouped by their index in the device's
  // slice, else by their global index.
  const bool slices = names.in_slices;
  const int64_t group =
      slices ? std::max<int64_t>(extent[dim] / other_shape[kv_dim], 1)
             : SizeOf(local, heads) / SizeOf(local, kv);
  const int64_t first = slices ? 0 : (repeat ? local.start : part.start)[dim];
  const int64_t kv_first =
      slices ? 0 : (repeat ? part.start : local.start)[kv_dim];
  const int64_t kv_stride = StridesOf(other_shape)[kv_dim];
  const Shape strides = StridesAlong(loop, other, other_shape);
  // ForNest computes an element's offset in each array from strides. With
  // stride 1 along the heads and 0 along all other dimensions, the offset is
  // the index of the head. These strides are therefore passed as a third array.
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

}  // namespace

void RunReshape(const LocalOp& local) {
  if (!local.out->IsReal() && !local.out->IsWide()) {
    Reshape<int32_t>(local);
  } else {
    InType(local, [&](auto type) { Reshape<decltype(type)>(local); });
  }
}

SHARDC_KERNEL(RunHeads, Heads)

void RunRoll(const LocalOp& local) {
  const Buffer& in = *local.in[0].buffer;
  const auto& roll = step::As<step::RollAttributes>(*local.op);
  const size_t dim = DimOf(*local.labels, roll.label);
  const int64_t rows = in.shape[dim];
  const int64_t first = roll.sign > 0 ? rows - 1 : 1;
  Buffer begin = SliceDim(in, dim, first, rows - first);
  Buffer end = SliceDim(in, dim, 0, first);
  if (roll.open) {
    Buffer& round = roll.sign > 0 ? begin : end;
    round = Buffer::Zeros(round.shape, round.dtype);
  }
  *local.out = ConcatDim({&begin, &end}, dim);
}

}  // namespace shardc::exec
