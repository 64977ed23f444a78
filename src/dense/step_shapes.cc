// The ops of the dense reference that move elements without computing. They
// split, merge, slice, index, rename and roll dimensions, and repeat each KV
// head for its query heads. The sum over the query heads of each KV head is in
// this file too. For example, a dimension of 8 elements is split into n of size
// 2 and h of size 4:
//
//   split (n h) -> n h: element 5 of (n h) is at n = 1, h = 1
#include "dense/step_ops.h"

#include <variant>

namespace shardc::dense {
namespace {

using step::LabelId;
using step::Op;
using step::OpKind;
using step::ValueId;

}  // namespace

template <typename T>
void RunRename(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  out.data = c.Of(op.in[0]).data;
}

// Splits a dimension into its factors (kSplit), or merges the factors into the
// dimension (kMerge). The factors may be anywhere among the other dimensions.
template <typename T>
void RunReshape(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const bool split = op.kind == OpKind::kSplit;
  const ValueId whole = split ? op.in[0] : op.out;
  const ValueId apart = split ? op.out : op.in[0];
  const LabelId merged = step::As<step::LabelAttributes>(op).label;
  const auto& factors = c.graph.labels[AsIndex(merged)].factors;
  Labels labels;
  Strides strides;
  const Labels& own = c.LabelsOf(whole);
  const Strides of_merged = RowMajor(c.Of(whole).shape);
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i] != merged) {
      labels.push_back(own[i]);
      strides.push_back(of_merged[i]);
      continue;
    }
    const Strides inside = RowMajor(c.Sized(factors));
    for (size_t f = 0; f < factors.size(); ++f) {
      labels.push_back(factors[f]);
      strides.push_back(of_merged[i] * inside[f]);
    }
  }
  Odometer at(c.Sized(labels), {strides, c.By(apart, labels)});
  const StepTensor<T>& from = c.Of(op.in[0]);
  for (size_t i = 0; i < out.data.size(); ++i, at.Next()) {
    const auto in_merged = AsIndex(at.offset(0));
    const auto in_apart = AsIndex(at.offset(1));
    out.data[split ? in_apart : in_merged] =
        from.data[split ? in_merged : in_apart];
  }
}

// Copies a range of indices of a dimension (kPart), or one index (kIndex), from
// a wide tensor into a narrow one. kUnpart and kUnindex copy it back.
template <typename T>
void RunSlice(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const bool into = op.kind == OpKind::kUnpart || op.kind == OpKind::kUnindex;
  const ValueId wide = into ? op.out : op.in[0];
  const ValueId narrow = into ? op.in[0] : op.out;
  const Labels& labels = c.LabelsOf(narrow);
  Strides strides = c.By(wide, labels);
  int64_t step = 0, begin = 0;
  if (const auto* part = std::get_if<step::PartAttributes>(&op.attributes)) {
    step = c.By(wide, {part->whole})[0];
    const auto& parts = c.graph.labels[AsIndex(part->whole)].parts;
    for (size_t i = 0; i < AsIndex(part->number); ++i) {
      begin += c.SizeOf(parts[i]);
    }
    strides[Place(labels, part->part)] = step;
  } else {
    const auto& [label, row] = step::As<step::IndexAttributes>(op);
    step = c.By(wide, {label})[0];
    begin = row;
  }
  Odometer at(c.Of(narrow).shape, {c.By(narrow, labels), strides});
  const StepTensor<T>& from = c.Of(op.in[0]);
  for (size_t i = 0; i < c.Of(narrow).data.size(); ++i, at.Next()) {
    const auto near = AsIndex(at.offset(0));
    const auto far = AsIndex(at.offset(1) + begin * step);
    out.data[into ? far : near] = from.data[into ? near : far];
  }
}

// Repeats each KV head for its query heads (kRepeat), or sums the query heads
// of each KV head (kGroupSum).
template <typename T>
void RunHeads(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const bool sum = op.kind == OpKind::kGroupSum;
  const ValueId many = sum ? op.in[0] : op.out;
  const ValueId few = sum ? op.out : op.in[0];
  const auto& names = step::As<step::HeadGroupAttributes>(op);
  const LabelId heads = names.query_heads, groups = names.kv_heads;
  const int64_t each = c.SizeOf(heads) / c.SizeOf(groups);
  const Labels& labels = c.LabelsOf(many);
  const int64_t step = c.By(few, {groups})[0];
  const size_t head = Place(labels, heads);
  Odometer at(c.Of(many).shape, {c.By(many, labels), c.By(few, labels)});
  for (size_t i = 0; i < c.Of(many).data.size(); ++i, at.Next()) {
    const auto narrow = AsIndex(at.offset(1) + at.at(head) / each * step);
    const auto wide = AsIndex(at.offset(0));
    if (sum) {
      out.data[narrow] += c.Of(many).data[wide];
    } else {
      out.data[wide] = c.Of(few).data[narrow];
    }
  }
}

template <typename T>
void RunRoll(StepContext<T>& c, const Op& op, StepTensor<T>& out) {
  const Labels& labels = c.LabelsOf(op.out);
  const auto& roll = step::As<step::RollAttributes>(op);
  const size_t dim = Place(labels, roll.label);
  const int64_t rows = c.SizeOf(roll.label);
  const int64_t stride = RowMajor(out.shape)[dim];
  const StepTensor<T>& x = c.Of(op.in[0]);
  Odometer at(out.shape, {RowMajor(out.shape)});
  for (T& to : out.data) {
    const int64_t before = at.at(dim) - roll.sign;
    const int64_t from = (before + rows) % rows;
    const int64_t there = at.offset(0) + (from - at.at(dim)) * stride;
    const bool comes_round = before != from;
    to = comes_round && roll.open ? T(0) : x.data[AsIndex(there)];
    at.Next();
  }
}

SHARDC_DENSE_OP(RunRename)
SHARDC_DENSE_OP(RunReshape)
SHARDC_DENSE_OP(RunSlice)
SHARDC_DENSE_OP(RunHeads)
SHARDC_DENSE_OP(RunRoll)

}  // namespace shardc::dense
