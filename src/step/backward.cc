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
#include "step/backward.h"

#include <string>
#include <utility>

#include "source/size.h"
#include "step/constraints.h"
#include "step/op_def.h"

namespace shardc::step {
namespace {

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
