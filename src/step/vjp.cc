// Forward ops are walked backwards. An op whose result has cotangents adds them
// (several are added before they are reduced) and gives each operand its share,
// made of ops of the same table:
//
//   y = einsum(x [b t d], w [f d])   g [b t f]  ->  x: einsum(g, w -> b t d)
//                                                   w: einsum(g, x -> f d)
//
// Choices, masks' positions and a softmax's maximum pass nothing on: the
// maximum is a constant, on which the result does not depend.
#include "step/vjp.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "source/index.h"
#include "step/functions.h"
#include "step/graph_writer.h"

namespace shardc::step {
namespace {

// Anchors that say only where a gather happens; its transpose is free to
// choose.
bool IsForwardOnly(const std::string& constraint) {
  return constraint == "krep" || constraint == "op_krep" ||
         constraint == "kcache";
}

class Differentiator {
 public:
  explicit Differentiator(Graph& graph)
      : graph_(graph), forward_ops_(graph.ops.size()), write_(graph) {}

  void Run() {
    if (graph_.loss == kNoValue) return;
    FindNeeded();
    FindMakers();
    graph_.ops.reserve(forward_ops_ * 3);
    cotangents_.resize(graph_.values.size());
    write_.phase = Phase::kBackward;
    write_.name = "d:loss";
    Give(graph_.loss, write_.Fn("one", graph_.loss));
    for (size_t i = forward_ops_; i > 0;) {
      --i;
      Visit(i);
    }
    for (const Parameter& parameter : graph_.parameters) {
      graph_.gradients.push_back(OfParameter(parameter));
    }
  }

 private:
  static bool PassesNothing(const Op& op) {
    switch (op.kind) {
      case OpKind::kMax:
      case OpKind::kTopGroups:
      case OpKind::kTopK:
      case OpKind::kSlots:
        return true;
      case OpKind::kFn: {
        const Function* const function = FindFunction(op.fn);
        return function == nullptr || function->derivative.empty();
      }
      default:
        return false;
    }
  }

  // Values through which a parameter reaches the loss's side.
  void FindNeeded() {
    needed_.assign(graph_.values.size(), false);
    for (const Parameter& parameter : graph_.parameters) {
      needed_[AsIndex(parameter.value)] = true;
    }
    for (const Op& op : graph_.ops) {
      if (PassesNothing(op)) continue;
      for (const ValueId in : op.in) {
        if (needed_[AsIndex(in)]) {
          needed_[AsIndex(op.out)] = true;
        }
      }
    }
  }

  bool Needs(ValueId value) const { return needed_[AsIndex(value)]; }
  void Give(ValueId value, ValueId cotangent) {
    if (Needs(value)) {
      cotangents_[AsIndex(value)].push_back(cotangent);
    }
  }

  // Of all that `value` was given, at `anchor`.
  ValueId Gathered(ValueId value, const std::string& constraint) {
    auto& given = cotangents_[AsIndex(value)];
    if (given.empty()) return kNoValue;
    ValueId g = write_.Add(given);
    if (!IsForwardOnly(constraint)) g = write_.Constrained(g, constraint);
    auto& of = graph_.values[AsIndex(g)].cotangent_of;
    if (of == kNoValue) of = value;
    given = {g};
    return g;
  }

  ValueId OfParameter(const Parameter& parameter) {
    write_.layer = parameter.layer;
    write_.name = "d:" + parameter.role;
    return Gathered(parameter.value, "grad:" + parameter.role);
  }

  void Visit(size_t index) {
    if (graph_.ops[index].in.empty()) return;
    // A copy, since ops are appended; of what the rules read.
    const Op op = graph_.ops[index];
    if (cotangents_[AsIndex(op.out)].empty()) return;
    write_.layer = op.layer;
    write_.name = "d:" + op.name;
    const ValueId g = Gathered(op.out, op.constraint);
    Pass(op, g);
  }

  void Pass(const Op& op, ValueId g) {
    const ValueId x = op.in[0];
    switch (op.kind) {
      case OpKind::kEinsum:
        return PassEinsum(op, g);
      case OpKind::kAdd:
        for (const ValueId in : op.in) PassTerm(in, g);
        return;
      case OpKind::kScale:
        return Give(x, write_.Scaled(g, op.scale));
      case OpKind::kFn:
        return PassFn(op, g);
      case OpKind::kSum:
        return Give(x, write_.Broadcast(g, op.label, write_.LabelsOf(x)));
      case OpKind::kLookup:
        return Give(x, Like(op, OpKind::kScatter, {op.in[1], g}, x));
      case OpKind::kPick:
        return Give(x, Like(op, OpKind::kPlace, {op.in[1], g}, x));
      case OpKind::kSplit:
        return Give(x, write_.Merge(g, op.label));
      case OpKind::kMerge:
        return Give(x, write_.Split(g, op.label));
      case OpKind::kPart:
        return Give(x, Like(op, OpKind::kUnpart, {g}, x));
      case OpKind::kIndex:
        return Give(x, Like(op, OpKind::kUnindex, {g}, x));
      case OpKind::kRename:
        return Give(x, write_.Rename(g, op.to, op.label));
      case OpKind::kIdentity:
      case OpKind::kMask:
        return Give(x, g);
      case OpKind::kRope: {
        const ValueId rotated = Like(op, OpKind::kRope, {g, op.in[1]}, x);
        write_.Producer(rotated).sign = static_cast<int8_t>(-op.sign);
        return Give(x, rotated);
      }
      case OpKind::kBroadcast:
        return Give(x, write_.Sum(g, op.label));
      case OpKind::kRoll: {
        const ValueId back = Like(op, OpKind::kRoll, {g}, x);
        write_.Producer(back).sign = static_cast<int8_t>(-op.sign);
        write_.Producer(back).fn = op.fn;
        return Give(x, back);
      }
      case OpKind::kRepeat: {
        const ValueId summed = Like(op, OpKind::kGroupSum, {g}, x);
        std::swap(write_.Producer(summed).label, write_.Producer(summed).to);
        return Give(x, summed);
      }
      case OpKind::kDropout:
        return Give(x, Like(op, OpKind::kDropout, {g}, x));
      default:
        return;
    }
  }

  // The op's fields in one of another kind, whose result is as `x`.
  ValueId Like(const Op& op, OpKind kind, std::vector<ValueId> in, ValueId x) {
    Op made;
    made.kind = kind;
    made.in = std::move(in);
    made.label = op.label;
    made.to = op.to;
    made.index = op.index;
    made.scale = op.scale;
    return write_.Append(std::move(made), write_.LabelsOf(x));
  }

  void PassEinsum(const Op& op, ValueId g) {
    const ValueId a = op.in[0], b = op.in[1];
    if (a == b) {
      if (!Needs(a)) return;
      const ValueId half = write_.Einsum(g, b, write_.LabelsOf(a));
      return Give(a, write_.Scaled(half, {2, {}}));
    }
    if (Needs(a)) Give(a, write_.Einsum(g, Recomputed(b), write_.LabelsOf(a)));
    if (Needs(b)) Give(b, write_.Einsum(g, Recomputed(a), write_.LabelsOf(b)));
  }

  // Summed over what the term lacks.
  void PassTerm(ValueId term, ValueId g) {
    if (!Needs(term)) return;
    const Labels wide = write_.LabelsOf(g);
    for (const LabelId label : wide) {
      if (!write_.Has(term, label)) g = write_.Sum(g, label);
    }
    Give(term, g);
  }

  void PassFn(const Op& op, ValueId g) {
    const ValueId x = op.in[0];
    const Function* const function = FindFunction(op.fn);
    if (function == nullptr || !Needs(x)) return;
    if (function->derivative == "one") return Give(x, g);
    const ValueId slope =
        function->derivative == "="
            ? Recomputed(op.out)
            : write_.Fn(function->derivative, Recomputed(x), op.scale.constant);
    Give(x, write_.Times(g, slope));
  }

  // A forward value as backward has it: kept, or made anew. What came round a
  // ring comes from the other side, from where it is at home: the last turn is
  // the first one there, and so it goes with its own gradient.
  ValueId Recomputed(ValueId value) {
    if (!made_by_[AsIndex(value)].recompute) return value;
    const auto known = recomputed_.find(value);
    if (known != recomputed_.end()) return known->second;
    Op op = graph_.ops[static_cast<size_t>(made_by_[AsIndex(value)].op)];
    if (op.kind == OpKind::kRoll) {
      const auto next = rolled_.find(value);
      op.in = {next == rolled_.end() ? HomeOf(value)
                                     : Recomputed(next->second)};
      op.sign = static_cast<int8_t>(-op.sign);
    } else {
      for (ValueId& in : op.in) in = Recomputed(in);
    }
    op.recompute = false;
    op.constraint.clear();
    const ValueId made = write_.Append(std::move(op), write_.LabelsOf(value));
    recomputed_[value] = made;
    return made;
  }
  ValueId HomeOf(ValueId value) const {
    const Maker* maker = &made_by_[AsIndex(value)];
    while (maker->recompute) {
      value = graph_.ops[AsIndex(maker->op)].in[0];
      maker = &made_by_[AsIndex(value)];
    }
    return value;
  }
  void FindMakers() {
    made_by_.resize(graph_.values.size());
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      made_by_[AsIndex(op.out)] = {static_cast<int32_t>(i), op.recompute};
      if (op.kind == OpKind::kRoll) rolled_[op.in[0]] = op.out;
    }
  }

  Graph& graph_;
  const size_t forward_ops_;
  GraphWriter write_;
  struct Maker {
    int32_t op = -1;
    bool recompute = false;
  };

  std::vector<bool> needed_;               // by forward value
  std::vector<Maker> made_by_;             // the same
  std::map<ValueId, ValueId> rolled_;      // by what it was before
  std::map<ValueId, ValueId> recomputed_;  // by forward value
  std::vector<std::vector<ValueId>> cotangents_;
};

}  // namespace

void Differentiate(Graph& graph) { Differentiator(graph).Run(); }

}  // namespace shardc::step
