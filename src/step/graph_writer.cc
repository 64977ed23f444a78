// Appends ops to a graph. Every op is appended by Append(), which sets the op's
// name, phase and layer to the current ones, and records the op as the producer
// of its result:
//
//   Split(x [b, t, (n h)], (n h))  ->  kSplit of (n h), result [b, t, n, h]
#include "step/graph_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "source/list.h"
#include "source/size.h"
#include "step/constraints.h"
#include "step/op_def.h"

namespace shardc::step {

GraphWriter::GraphWriter(Graph& graph)
    : graph_(graph), producer_(graph.values.size(), -1) {
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    producer_[AsIndex(graph.ops[i].out)] = static_cast<int32_t>(i);
  }
}

bool HasLabel(const Labels& labels, LabelId label) {
  return IsAmong(label, labels);
}

bool GraphWriter::Has(ValueId value, LabelId label) const {
  return HasLabel(LabelsOf(value), label);
}

Labels GraphWriter::Without(const Labels& labels, LabelId gone) {
  Labels out;
  out.reserve(labels.size());
  for (const LabelId label : labels) {
    if (label != gone) out.push_back(label);
  }
  return out;
}

Labels GraphWriter::Replaced(const Labels& labels, LabelId from,
                             std::span<const LabelId> to) {
  Labels out;
  out.reserve(labels.size() + to.size());
  for (const LabelId label : labels) {
    if (label != from) {
      out.push_back(label);
    } else {
      out.insert(out.end(), to.begin(), to.end());
    }
  }
  return out;
}

ValueId GraphWriter::Append(OpKind kind, std::vector<ValueId> in,
                            OpAttributes attributes, Labels labels,
                            bool integral) {
  Op op;
  op.kind = kind;
  op.in = std::move(in);
  op.attributes = std::move(attributes);
  return Append(std::move(op), std::move(labels), integral);
}

ValueId GraphWriter::Append(Op op, Labels labels, bool integral) {
  const auto value = static_cast<ValueId>(graph_.values.size());
  op.out = value;
  op.phase = phase;
  op.layer = layer;
  op.name = name;
  op.line = line;
  graph_.values.push_back({std::move(labels), integral, kNoValue});
  producer_.push_back(static_cast<int32_t>(graph_.ops.size()));
  graph_.ops.push_back(std::move(op));
  return value;
}

ValueId GraphWriter::Input(Labels labels, bool integral) {
  return Append(OpKind::kInput, {}, {}, std::move(labels), integral);
}

ValueId GraphWriter::Einsum(ValueId a, ValueId b, Labels out) {
  return Append(OpKind::kEinsum, {a, b}, {}, std::move(out));
}

ValueId GraphWriter::Add(std::vector<ValueId> terms) {
  if (terms.size() == 1) return terms[0];
  const auto widest =
      *std::max_element(terms.begin(), terms.end(), [&](ValueId a, ValueId b) {
        return LabelsOf(a).size() < LabelsOf(b).size();
      });
  Labels labels = LabelsOf(widest);
  return Append(OpKind::kAdd, std::move(terms), {}, std::move(labels));
}

ValueId GraphWriter::Scaled(ValueId x, Scale scale) {
  return Append(OpKind::kScale, {x}, ScaleAttributes{std::move(scale)},
                LabelsOf(x));
}

ValueId GraphWriter::Fn(std::string_view fn, ValueId x, double constant) {
  return Append(OpKind::kFn, {x}, FnAttributes{std::string(fn), constant},
                LabelsOf(x));
}

ValueId GraphWriter::Greater(ValueId a, ValueId b) {
  return Append(OpKind::kFn, {a, b}, FnAttributes{.fn = "max2"}, LabelsOf(a));
}

ValueId GraphWriter::Sum(ValueId x, LabelId label) {
  return Append(OpKind::kSum, {x}, LabelAttributes{label},
                Without(LabelsOf(x), label));
}

ValueId GraphWriter::Max(ValueId x, LabelId label) {
  return Append(OpKind::kMax, {x}, LabelAttributes{label},
                Without(LabelsOf(x), label));
}

ValueId GraphWriter::Broadcast(ValueId x, LabelId label, Labels out) {
  return Append(OpKind::kBroadcast, {x}, LabelAttributes{label},
                std::move(out));
}

ValueId GraphWriter::Lookup(ValueId table, ValueId ids, int64_t offset) {
  const LookupAttributes rows{LabelsOf(table)[0], offset};
  Labels labels = LabelsOf(ids);
  labels.push_back(LabelsOf(table)[1]);
  return Append(OpKind::kLookup, {table, ids}, rows, std::move(labels));
}

ValueId GraphWriter::Pick(ValueId logits, ValueId ids, LabelId from) {
  return Append(OpKind::kPick, {logits, ids}, LabelAttributes{from},
                Without(LabelsOf(logits), from));
}

ValueId GraphWriter::Split(ValueId x, LabelId label) {
  return Append(
      OpKind::kSplit, {x}, LabelAttributes{label},
      Replaced(LabelsOf(x), label, graph_.labels[AsIndex(label)].factors));
}

ValueId GraphWriter::Merge(ValueId x, LabelId label) {
  const auto& factors = graph_.labels[AsIndex(label)].factors;
  Labels labels;
  for (const LabelId at : LabelsOf(x)) {
    const auto factor = std::find(factors.begin(), factors.end(), at);
    if (factor == factors.end()) labels.push_back(at);
    if (factor == factors.begin()) labels.push_back(label);
  }
  return Append(OpKind::kMerge, {x}, LabelAttributes{label}, std::move(labels));
}

ValueId GraphWriter::Part(ValueId x, LabelId whole, size_t index) {
  const LabelId part = graph_.labels[AsIndex(whole)].parts[index];
  return Append(OpKind::kPart, {x},
                PartAttributes{whole, part, static_cast<int64_t>(index)},
                Replaced(LabelsOf(x), whole, {{part}}));
}

ValueId GraphWriter::Index(ValueId x, LabelId label, int64_t row) {
  return Append(OpKind::kIndex, {x}, IndexAttributes{label, row},
                Without(LabelsOf(x), label));
}

ValueId GraphWriter::Rename(ValueId x, LabelId from, LabelId to) {
  return Append(OpKind::kRename, {x}, RenameAttributes{from, to},
                Replaced(LabelsOf(x), from, {{to}}));
}

ValueId GraphWriter::Shifted(ValueId x, LabelId label, int8_t sign) {
  return Append(OpKind::kRoll, {x}, RollAttributes{label, sign, true},
                LabelsOf(x));
}

ValueId GraphWriter::Identity(ValueId x) {
  return Append(OpKind::kIdentity, {x}, {}, LabelsOf(x));
}

ValueId GraphWriter::Constrained(ValueId value, std::string_view constraint) {
  if (constraint.empty() || Producer(value).constraint == constraint)
    return value;
  const Op& made = Producer(value);
  if (!made.constraint.empty() || made.kind == OpKind::kInput) {
    value = Identity(value);
  }
  Producer(value).constraint = constraint;
  return value;
}

// Creates the labels of a step, and each composite label only once. An existing
// composite is found by its name, which lists its factors (separated by spaces)
// or its parts (separated by `+`) in parentheses. For example:
//
//   parts c and r           ->  (c+r)
//   factors n and (c+r)     ->  (n (c+r))

void LabelTable::MakeCommon(std::span<const int64_t> dims) {
  CommonLabels& common = graph_.common;
  common.batch = New("b", "BATCH", 0);
  common.query = New("t", "QUERY_LENGTH", 0);
  common.key = New("s", "KV_LENGTH", 0);
  if (description_.HasEncoder()) {
    common.encoder_query = New("te", "QUERY_LENGTH", 0);
    common.encoder_key = New("se", "KV_LENGTH", 0);
  }
  for (size_t i = 0; i < description_.dims.size(); ++i) {
    const std::string& name = description_.dims[i].first;
    const auto axis = description_.axes.find(name);
    dims_.push_back(New(
        name, axis == description_.axes.end() ? "" : axis->second, dims[i]));
  }
}

LabelId LabelTable::New(std::string name, std::string_view semantic,
                        int64_t size) {
  DimLabel label;
  label.name = std::move(name);
  label.semantic = semantic;
  graph_.labels.push_back(std::move(label));
  sizes_.push_back(size);
  return static_cast<LabelId>(graph_.labels.size() - 1);
}

LabelId LabelTable::OfParts(const std::vector<LabelId>& parts) {
  return Composite(parts, "+", &DimLabel::parts);
}

LabelId LabelTable::OfFactors(const std::vector<LabelId>& factors) {
  return Composite(factors, " ", &DimLabel::factors);
}

std::vector<LabelId> LabelTable::FactorsOf(const DescribedDim& dim) {
  std::vector<LabelId> factors;
  for (const auto& names : dim.factors) {
    std::vector<LabelId> parts;
    for (const std::string& name : names) parts.push_back(Named(name));
    factors.push_back(OfParts(parts));
  }
  return factors;
}

size_t LabelTable::LeadOf(const DescribedDim& dim) {
  if (!description_.IsFusedByPart()) return 0;
  const std::vector<LabelId> factors = FactorsOf(dim);
  const auto axis =
      std::find_if_not(factors.begin(), factors.end(),
                       [&](LabelId label) { return IsCount(label); });
  const bool moves = axis != factors.end() && (*this)[*axis].parts.empty();
  return moves ? AsIndex(axis - factors.begin()) : 0;
}

LabelId LabelTable::Of(const DescribedDim& dim) {
  std::vector<LabelId> factors = FactorsOf(dim);
  const auto axis = factors.begin() + static_cast<std::ptrdiff_t>(LeadOf(dim));
  if (axis != factors.end()) std::rotate(factors.begin(), axis, axis + 1);
  return OfFactors(factors);
}

bool LabelTable::IsCount(LabelId label) const {
  const DimLabel& of = graph_.labels[AsIndex(label)];
  return of.semantic.empty() && of.parts.empty();
}

LabelId LabelTable::Named(std::string_view dim) const {
  for (size_t i = 0; i < description_.dims.size(); ++i) {
    if (description_.dims[i].first == dim) return dims_[i];
  }
  return kNoLabel;
}

LabelId LabelTable::Composite(const std::vector<LabelId>& of,
                              std::string_view between,
                              std::vector<LabelId> DimLabel::*made_of) {
  if (of.size() == 1) return of[0];
  std::string name;
  for (const LabelId one : of) {
    name += name.empty() ? "(" : between;
    name += (*this)[one].name;
  }
  name += ")";
  const auto known = composites_.find(name);
  if (known != composites_.end()) return known->second;
  const LabelId label = New(name, "", 0);
  (*this)[label].*made_of = of;
  composites_[name] = label;
  return label;
}

namespace {

// Keeps the state while the backward pass is appended to a graph. If several
// ops read a value, each of these ops contributes a term to the cotangent of
// the value. The terms are collected, and are added when the cotangent is first
// read.
//
// A backward op may read a forward value that the forward pass does not keep.
// Such a value is rematerialised by copies of the ops that compute it. Each op
// is copied at most once. For example:
//
//   e = exp(scores) is not kept, and the derivative of exp reads e
//   ->  exp is copied; if the scores are not kept either, the ops that compute
//       them are copied too

bool StopsGradient(const Op& op) {
  const OpDef& def = DefOf(op.kind);
  return def.stops_gradient != nullptr && def.stops_gradient(op);
}

}  // namespace

Backward::Backward(Graph& graph) : graph_(graph), write_(graph) {
  FindNeeded();
  FindMakers();
  cotangents_.resize(graph.values.size());
  write_.phase = Phase::kBackward;
}

void Backward::FindNeeded() {
  needed_.assign(graph_.values.size(), false);
  for (const Parameter& parameter : graph_.parameters) {
    needed_[AsIndex(parameter.value)] = parameter.trained;
  }
  for (const Op& op : graph_.ops) {
    if (StopsGradient(op)) continue;
    for (const ValueId in : op.in) {
      if (needed_[AsIndex(in)]) needed_[AsIndex(op.out)] = true;
    }
  }
}

void Backward::FindMakers() {
  made_by_.resize(graph_.values.size());
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    const Op& op = graph_.ops[i];
    made_by_[AsIndex(op.out)] = {static_cast<int32_t>(i), op.recompute};
    if (op.kind == OpKind::kRoll) rolled_[op.in[0]] = op.out;
  }
}

void Backward::Give(ValueId value, ValueId cotangent) {
  if (Needs(value)) cotangents_[AsIndex(value)].push_back(cotangent);
}

ValueId Backward::Total(ValueId value, const std::string& constraint) {
  auto& terms = cotangents_[AsIndex(value)];
  if (terms.empty()) return kNoValue;
  ValueId total = write_.Add(terms);
  if (!IsForwardOnly(constraint)) {
    total = write_.Constrained(total, constraint);
  }
  auto& of = graph_.values[AsIndex(total)].cotangent_of;
  if (of == kNoValue) of = value;
  terms = {total};
  return total;
}

// Returns a forward value, which may be rematerialised. In ring attention, the
// forward pass rolls blocks of keys and values by one device between turns. The
// backward pass needs the same blocks in the opposite order, so it rolls them
// in the other direction. For example, device 0 of a ring of four reads these
// blocks:
//
//   forward:   0, 3, 2, 1
//   backward:  1, 2, 3, 0
//
// The first backward roll starts from the original blocks, so that device 0
// gets block 1 of its neighbour. As a result, each block arrives at a device
// together with its own gradient.
ValueId Backward::Forward(ValueId value) {
  if (!made_by_[AsIndex(value)].recompute) return value;
  const auto known = recomputed_.find(value);
  if (known != recomputed_.end()) return known->second;
  Op op = graph_.ops[AsIndex(made_by_[AsIndex(value)].op)];
  if (op.kind == OpKind::kRoll) {
    const auto next = rolled_.find(value);
    op.in = {next == rolled_.end() ? HomeOf(value) : Forward(next->second)};
    RollAttributes& roll = As<RollAttributes>(op);
    roll.sign = static_cast<int8_t>(-roll.sign);
  } else {
    for (ValueId& in : op.in) in = Forward(in);
  }
  op.recompute = false;
  op.constraint.clear();
  const ValueId made = write_.Append(std::move(op), write_.LabelsOf(value));
  recomputed_[value] = made;
  return made;
}

// Returns the value that the first roll of the forward pass reads. `value` is
// the result of this roll, or of a later one.
ValueId Backward::HomeOf(ValueId value) const {
  const Maker* maker = &made_by_[AsIndex(value)];
  while (maker->recompute) {
    value = graph_.ops[AsIndex(maker->op)].in[0];
    maker = &made_by_[AsIndex(value)];
  }
  return value;
}

ValueId Backward::Like(const Op& op, OpKind kind, std::vector<ValueId> in,
                       ValueId like) {
  return write_.Append(kind, std::move(in), op.attributes,
                       write_.LabelsOf(like));
}

// Reverse-mode differentiation. Forward ops are visited in reverse order. If
// the result of an op has a cotangent g, the rule in the op's definition adds
// the cotangents of its operands. The cotangents are computed by ops that are
// appended to the graph:
//
//   y = einsum(x [b t d], w [f d])   g [b t f]  ->  x: einsum(g, w -> b t d)
//                                                   w: einsum(g, x -> f d)
//
// No gradient passes through the choice of experts, which is 0 or 1. Nor does
// one pass through the maximum in a softmax, because the softmax does not
// depend on it.

void Differentiate(Graph& graph) {
  if (graph.loss == kNoValue) return;
  const size_t forward_ops = graph.ops.size();
  graph.ops.reserve(forward_ops * 3);
  Backward backward(graph);
  GraphWriter& write = backward.write();
  write.name = "d:loss";
  backward.Give(graph.loss, write.Fn("one", graph.loss));
  for (size_t i = forward_ops; i > 0;) {
    --i;
    if (graph.ops[i].in.empty()) continue;
    if (!backward.HasCotangent(graph.ops[i].out)) continue;
    // The op is copied, because appending to graph.ops may reallocate the
    // vector.
    const Op op = graph.ops[i];
    write.layer = op.layer;
    write.name = "d:" + op.name;
    write.line = op.line;
    const ValueId cotangent = backward.Total(op.out, op.constraint);
    const VjpRule rule = DefOf(op.kind).vjp;
    if (rule != nullptr) rule(backward, op, cotangent);
  }
  for (const Parameter& parameter : graph.parameters) {
    write.layer = parameter.layer;
    write.line = 0;
    write.name = "d:" + parameter.role;
    graph.gradients.push_back(
        backward.Total(parameter.value, "grad:" + parameter.role));
  }
}

}  // namespace shardc::step
