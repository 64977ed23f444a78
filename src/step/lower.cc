// Op by op: how its operands must lie is chosen, they are moved there (from the
// copy from which that is cheapest, and the copy is kept for who comes later),
// the op runs on shards, and its result is brought to its anchor. Wishes go
// backwards first: a result without an anchor of its own is wished as its only
// consumer wants it, so that a gradient's op sees the parameter's layout
// through the merge that follows it.
//
//   y [b:dp t d] @normed, q [(n h):tp d:fsdp]
//     all_gather fsdp of q; linear q -> [b:dp t (n h):tp]
#include "step/lower.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "source/index.h"
#include "step/factors.h"
#include "step/weights.h"

namespace shardc::step {
namespace {

struct PreferredSharding {
  std::optional<Sharding> sharding;
  bool gradient = false;
};

// How an op that is run again was lowered the first time.
struct Lowered {
  std::vector<Sharding> operands;
  Sharding result;
  AxisList maxima;
};

class Lowerer {
 public:
  Lowerer(const LowerRequest& request, Unsupported& why)
      : request_(request),
        graph_(*request.graph),
        why_(why),
        weight_(FindWeights(graph_)) {
    out_.axes = AxesOf(request.mesh);
    settings_ = {.axes = &out_.axes,
                 .sizes = &request.sizes,
                 .element_bytes = request.element_bytes,
                 .data = 0,
                 .policy = request.policy};
  }

  std::optional<Program> Run() {
    if (out_.axes.count() >= kMaxAxes) {
      Fail("the mesh has more axes than a step's program can name", "", "");
      return std::nullopt;
    }
    settings_.data = out_.axes.SetOf(request_.constraints.data);
    copies_.resize(graph_.values.size());
    FindFixed();
    PropagatePreferred();
    out_.slots.reserve(graph_.ops.size() * 2);
    out_.code.reserve(graph_.ops.size() * 2);
    for (size_t i = 0; i < graph_.ops.size(); ++i) {
      op_ = static_cast<int32_t>(i);
      const Op& op = graph_.ops[i];
      if (op.phase != phase_) EnterPhase(op.phase);
      if (!LowerOp(op)) return std::nullopt;
    }
    FinishResults();
    return std::move(out_);
  }

 private:
  bool Fail(std::string message, std::string op, std::string axis) {
    why_ = {std::move(message), std::move(op), std::move(axis)};
    return false;
  }
  const Value& ValueOf(ValueId value) const {
    return graph_.values[AsIndex(value)];
  }

  // Values that lie as their parameter does.
  void FindFixed() {
    fixed_.assign(graph_.values.size(), -1);
    const auto fix = [&](const std::vector<ValueId>& values) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] >= 0)
          fixed_[AsIndex(values[i])] = static_cast<int32_t>(i);
      }
    };
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      const ValueId value = graph_.parameters[i].value;
      fixed_[AsIndex(value)] = static_cast<int32_t>(i);
    }
    fix(graph_.gradients);
    fix(graph_.updated);
    for (const auto* list : {&graph_.moments, &graph_.updated_moments}) {
      for (size_t i = 0; i < list->size(); ++i) {
        for (ValueId value : {(*list)[i].first, (*list)[i].second}) {
          if (value >= 0) fixed_[AsIndex(value)] = static_cast<int32_t>(i);
        }
      }
    }
    FixGradients();
    parameter_.resize(graph_.parameters.size());
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      parameter_[i] = ParameterSharding(i);
    }
  }

  // Those of single micro-batches too, where each is reduced.
  void FixGradients() {
    std::map<std::pair<std::string_view, int32_t>, int32_t> known;
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      const Parameter& parameter = graph_.parameters[i];
      known[{parameter.role, parameter.layer}] = static_cast<int32_t>(i);
    }
    for (const Op& op : graph_.ops) {
      constexpr std::string_view kGradient = "grad:";
      if (op.micro < 0 || !op.constraint.starts_with(kGradient)) continue;
      const auto found = known.find(
          {std::string_view(op.constraint).substr(kGradient.size()), op.layer});
      if (found != known.end()) fixed_[AsIndex(op.out)] = found->second;
    }
  }

  Sharding ParameterSharding(size_t i) const {
    const Value& value = ValueOf(graph_.parameters[i].value);
    Sharding out;
    out.rank = static_cast<uint8_t>(std::min(value.labels.size(), kMaxRank));
    if (i >= request_.parameters.size()) return out;
    const Spec& spec = request_.parameters[i];
    for (size_t d = 0; d < out.rank && d < spec.size(); ++d) {
      out.dims[d] = out_.axes.Of(spec[d]);
    }
    return out;
  }

  // The layout that an op's result is brought to.
  std::optional<Sharding> ConstraintOf(const Op& op) {
    const int32_t fixed = fixed_[AsIndex(op.out)];
    if (fixed >= 0) return parameter_[AsIndex(fixed)];
    if (op.constraint.empty()) return std::nullopt;
    if (op.phase != Phase::kForward && IsForwardOnly(op.constraint)) {
      return std::nullopt;
    }
    return ConstrainedSharding(request_.constraints, out_.axes, graph_,
                               request_.sizes, op.constraint,
                               ValueOf(op.out).labels, out_.notes);
  }

  void PropagatePreferred() {
    const size_t values = graph_.values.size();
    std::vector<int32_t> consumers(values, 0);
    // What reads a value that is computed anew reads the value.
    std::vector<ValueId> first(values);
    for (size_t v = 0; v < values; ++v) first[v] = static_cast<ValueId>(v);
    for (const Op& op : graph_.ops) {
      if (op.recompute_of >= 0)
        first[AsIndex(op.out)] = graph_.ops[AsIndex(op.recompute_of)].out;
    }
    for (const Op& op : graph_.ops) {
      if (op.recompute_of >= 0) continue;
      for (ValueId value : op.in) ++consumers[AsIndex(first[AsIndex(value)])];
    }
    preferred_.resize(values);
    constrained_.assign(values, 0);
    is_gradient_.assign(values, 0);
    for (ValueId value : graph_.gradients) {
      if (value >= 0) is_gradient_[AsIndex(value)] = 1;
    }
    for (const Op& op : graph_.ops) {
      const bool of_micro = op.micro >= 0 && op.phase == Phase::kBackward;
      if (of_micro && fixed_[AsIndex(op.out)] >= 0)
        is_gradient_[AsIndex(op.out)] = 1;
    }
    for (size_t i = graph_.ops.size(); i > 0;) {
      --i;
      const Op& op = graph_.ops[i];
      if (op.recompute_of >= 0) continue;
      PreferredSharding& own = preferred_[AsIndex(op.out)];
      if (std::optional<Sharding> constraint = ConstraintOf(op)) {
        own = {constraint, is_gradient_[AsIndex(op.out)] != 0};
        constrained_[AsIndex(op.out)] = 1;
      }
      if (!own.sharding.has_value() || !RuleOf(op.kind).passes_preference)
        continue;
      for (ValueId value : op.in) {
        const bool alike =
            ValueOf(value).labels.size() == ValueOf(op.out).labels.size() ||
            RuleOf(op.kind).structural;
        const ValueId own_value = first[AsIndex(value)];
        if (!alike || consumers[AsIndex(own_value)] != 1) continue;
        if (op.kind == OpKind::kAdd &&
            ValueOf(value).labels != ValueOf(op.out).labels) {
          continue;
        }
        if (value != op.in[0] && op.kind != OpKind::kAdd) continue;
        preferred_[AsIndex(own_value)] = {
            PullBack(graph_, op, out_.axes, request_.sizes, *own.sharding),
            own.gradient};
      }
    }
    lowered_.resize(graph_.ops.size());
    is_recomputed_.assign(graph_.ops.size(), 0);
    for (const Op& op : graph_.ops) {
      if (op.recompute_of < 0) continue;
      is_recomputed_[AsIndex(op.recompute_of)] = 1;
      const ValueId of = graph_.ops[AsIndex(op.recompute_of)].out;
      preferred_[AsIndex(op.out)] = preferred_[AsIndex(of)];
      constrained_[AsIndex(op.out)] = constrained_[AsIndex(of)];
    }
  }

  // Gathered copies are fetched again in backward, and by each micro-batch;
  // reduced ones are kept.
  void EnterPhase(Phase phase) {
    phase_ = phase;
    if (phase == Phase::kOptimizer || request_.keep_gathered) return;
    for (std::vector<int32_t>& copies : copies_) {
      std::erase_if(copies, [&](int32_t slot) {
        return slot < static_cast<int32_t>(gathered_.size()) &&
               gathered_[AsIndex(slot)];
      });
    }
  }

  int32_t NewSlot(ValueId value, const Sharding& sharding, bool gathered) {
    out_.slots.push_back({value, sharding});
    gathered_.push_back(gathered);
    return static_cast<int32_t>(out_.slots.size() - 1);
  }

  const Sharding& ShardingOf(int32_t slot) const {
    return out_.slots[AsIndex(slot)].sharding;
  }

  // The slot in which consumers see a value.
  int32_t Seen(ValueId value) const { return copies_[AsIndex(value)].front(); }

  // From a slot to a layout, by slices and collectives.
  int32_t EmitCollectives(int32_t from, const Sharding& to) {
    bool gathered = gathered_[AsIndex(from)];
    for (const ReshardStep& step : PlanReshard(ShardingOf(from), to)) {
      const ValueId value = out_.slots[AsIndex(from)].value;
      gathered = gathered || (step.kind == InstructionKind::kCollective &&
                              (step.collective == Collective::kAllGather ||
                               step.collective == Collective::kAllToAll ||
                               step.collective == Collective::kPpermute));
      const int32_t slot = NewSlot(value, step.after, gathered);
      out_.code.push_back({.kind = step.kind,
                           .op = op_,
                           .in = {from},
                           .out = slot,
                           .axes = step.axes,
                           .dim = step.dim,
                           .other = step.other,
                           .collective = step.collective,
                           .max = false});
      from = slot;
    }
    return from;
  }

  // A slot of the value that lies so.
  int32_t Reshard(ValueId value, const Sharding& to) {
    std::vector<int32_t>& copies = copies_[AsIndex(value)];
    int32_t best = -1;
    ReshardCost least;
    for (int32_t slot : copies) {
      const Sharding& from = ShardingOf(slot);
      if (from == to) return slot;
      if ((to.partial & ~from.partial) != 0) continue;
      const ReshardCost cost =
          CostOf(PlanReshard(from, to), out_.axes, ValueOf(value), from,
                 request_.sizes, request_.element_bytes);
      if (best < 0 || cost.bytes < least.bytes ||
          (cost.bytes == least.bytes && cost.collectives < least.collectives)) {
        best = slot;
        least = cost;
      }
    }
    const AxisSet before = ShardingOf(best).partial;
    const int32_t out = EmitCollectives(best, to);
    // Once reduced, nobody reduces it again.
    if (before != 0 && to.partial == 0) {
      copies.insert(copies.begin(), out);
    } else {
      copies.push_back(out);
    }
    return out;
  }

  bool LowerOp(const Op& op) {
    if (ValueOf(op.out).labels.size() > kMaxRank) {
      return Fail("a value has more dimensions than a program can name",
                  op.name, "");
    }
    if (op.kind == OpKind::kInput) return LowerInput(op);
    if (op.kind == OpKind::kAdd && op.in.size() > 2 &&
        ValueOf(op.out).labels.empty()) {
      LowerScalars(op);
      return true;
    }
    if (op.kind == OpKind::kRoll && op.fn.empty() && LowerRoll(op)) return true;
    if (op.recompute_of >= 0)
      return LowerRecomputed(op, lowered_[AsIndex(op.recompute_of)]);
    return RuleOf(op.kind).structural ? LowerStructural(op) : LowerPlain(op);
  }

  // As the first time, so that it sends what was sent then.
  bool LowerRecomputed(const Op& op, const Lowered& first) {
    std::vector<int32_t> operands;
    operands.reserve(op.in.size());
    for (size_t i = 0; i < op.in.size(); ++i) {
      operands.push_back(Reshard(op.in[i], first.operands[i]));
    }
    Finish(op, std::move(operands), first.result, first.maxima);
    return true;
  }

  // Numbers that are pending over the same axes are added before these are
  // reduced: one collective for all of them.
  void LowerScalars(const Op& op) {
    std::vector<std::pair<AxisSet, std::vector<int32_t>>> groups;
    for (ValueId value : op.in) {
      const int32_t slot = Seen(value);
      const AxisSet partial = ShardingOf(slot).partial;
      auto found = std::find_if(
          groups.begin(), groups.end(),
          [&](const auto& group) { return group.first == partial; });
      if (found == groups.end()) {
        groups.emplace_back(partial, std::vector<int32_t>{});
        found = groups.end() - 1;
      }
      found->second.push_back(slot);
    }
    std::vector<int32_t> sums;
    for (auto& [partial, slots] : groups) {
      Sharding sharding;
      sharding.partial = partial;
      if (groups.size() == 1) return Finish(op, std::move(slots), sharding, {});
      const int32_t sum = NewSlot(op.out, sharding, false);
      out_.code.push_back({.kind = InstructionKind::kLocal,
                           .op = op_,
                           .in = std::move(slots),
                           .out = sum,
                           .axes = {}});
      sharding.partial = 0;
      sums.push_back(EmitCollectives(sum, sharding));
    }
    Finish(op, std::move(sums), Sharding{}, {});
  }

  bool LowerInput(const Op& op) {
    Sharding sharding;
    sharding.rank = static_cast<uint8_t>(ValueOf(op.out).labels.size());
    const PreferredSharding& preferred = preferred_[AsIndex(op.out)];
    if (preferred.sharding.has_value()) sharding = *preferred.sharding;
    if (!Divides(op, sharding)) return false;
    const int32_t slot = NewSlot(op.out, sharding, false);
    out_.code.push_back({.kind = InstructionKind::kInput,
                         .op = op_,
                         .in = {},
                         .out = slot,
                         .axes = {}});
    copies_[AsIndex(op.out)] = {slot};
    return true;
  }

  bool Divides(const Op& op, const Sharding& sharding) {
    const Value& value = ValueOf(op.out);
    for (size_t d = 0; d < sharding.rank; ++d) {
      const int64_t size = request_.sizes[AsIndex(value.labels[d])];
      if (size % out_.axes.Parts(sharding.dims[d]) != 0) {
        return Fail("dimension " +
                        graph_.labels[AsIndex(value.labels[d])].name + " of " +
                        std::to_string(size) + " does not divide by " +
                        GroupText(out_.axes.Group(sharding.dims[d])),
                    op.name, out_.axes.names[sharding.dims[d].back()]);
      }
    }
    return true;
  }

  const Sharding* WantedOf(const Op& op) const {
    const PreferredSharding& preferred = preferred_[AsIndex(op.out)];
    return preferred.sharding.has_value() ? &*preferred.sharding : nullptr;
  }

  bool LowerStructural(const Op& op) {
    const Sharding from = ShardingOf(Seen(op.in[0]));
    Sharding have = from;
    // Repeating makes more of what is pending: it is reduced before.
    if (op.kind == OpKind::kRepeat) have.partial = 0;
    const Structural passed =
        PassThrough(graph_, op, out_.axes, request_.sizes, have, WantedOf(op));
    const int32_t operand = Reshard(op.in[0], passed.operand);
    Finish(op, {operand}, passed.result, {});
    return true;
  }

  // Where every device has one row, rows move on from device to device. False
  // where they do not lie so.
  bool LowerRoll(const Op& op) {
    const int32_t from = Seen(op.in[0]);
    const std::vector<LabelId>& labels = ValueOf(op.out).labels;
    const size_t d = AsIndex(std::find(labels.begin(), labels.end(), op.label) -
                             labels.begin());
    const Sharding sharding = ShardingOf(from);
    const AxisList& axes = sharding.dims[d];
    if (axes.empty() ||
        out_.axes.Parts(axes) != request_.sizes[AsIndex(op.label)]) {
      return false;
    }
    if (is_recomputed_[AsIndex(op_)] != 0)
      lowered_[AsIndex(op_)] = {{sharding}, sharding, {}};
    const int32_t slot = NewSlot(op.out, sharding, false);
    out_.code.push_back({.kind = InstructionKind::kCollective,
                         .op = op_,
                         .in = {from},
                         .out = slot,
                         .axes = axes,
                         .dim = static_cast<uint8_t>(d),
                         .other = 0,
                         .collective = Collective::kPpermute,
                         .max = false,
                         .shift = op.sign});
    copies_[AsIndex(op.out)] = {slot};
    return true;
  }

  bool LowerPlain(const Op& op) {
    OpLabels labels;
    if (!LabelsOf(graph_, op, labels)) {
      return Fail("an op has more labels than a program can name", op.name, "");
    }
    Question question{.op = &op,
                      .labels = &labels,
                      .operands = {},
                      .result = &ValueOf(op.out),
                      .wanted = WantedOf(op),
                      .gradient = preferred_[AsIndex(op.out)].gradient};
    question.operands.reserve(op.in.size());
    for (size_t i = 0; i < op.in.size(); ++i) {
      const ValueId value = op.in[i];
      OperandView view{
          .value = &ValueOf(value),
          .sharding = &ShardingOf(Seen(value)),
          .copies = {},
          .weight = weight_[AsIndex(value)] != 0,
          .repeated = std::find(op.in.begin(), op.in.begin() + int64_t(i),
                                value) != op.in.begin() + int64_t(i)};
      for (int32_t slot : copies_[AsIndex(value)]) {
        view.copies.push_back(&ShardingOf(slot));
      }
      question.operands.push_back(std::move(view));
    }
    const Answer answer = Choose(settings_, question);
    std::vector<int32_t> operands;
    operands.reserve(op.in.size());
    for (size_t i = 0; i < op.in.size(); ++i) {
      operands.push_back(Reshard(op.in[i], answer.operands[i]));
    }
    for (ShardingConflict conflict : answer.conflicts) {
      conflict.op = op_;
      out_.conflicts.push_back(std::move(conflict));
    }
    Finish(op, std::move(operands), answer.result, answer.maxima);
    return true;
  }

  void Finish(const Op& op, std::vector<int32_t> operands,
              const Sharding& result, const AxisList& maxima) {
    if (is_recomputed_[AsIndex(op_)] != 0) {
      Lowered& of = lowered_[AsIndex(op_)];
      for (int32_t operand : operands)
        of.operands.push_back(ShardingOf(operand));
      of.result = result;
      of.maxima = maxima;
    }
    int32_t slot = NewSlot(op.out, result, false);
    out_.code.push_back({.kind = InstructionKind::kLocal,
                         .op = op_,
                         .in = std::move(operands),
                         .out = slot,
                         .axes = {}});
    if (!maxima.empty()) {
      const int32_t reduced = NewSlot(op.out, result, false);
      out_.code.push_back({.kind = InstructionKind::kCollective,
                           .op = op_,
                           .in = {slot},
                           .out = reduced,
                           .axes = maxima,
                           .dim = 0,
                           .other = 0,
                           .collective = Collective::kAllReduce,
                           .max = true});
      slot = reduced;
    }
    if (constrained_[AsIndex(op.out)] != 0) {
      slot = EmitCollectives(slot, *preferred_[AsIndex(op.out)].sharding);
      // Where it is brought to is where it lies, not a copy.
      gathered_[AsIndex(slot)] = false;
    }
    copies_[AsIndex(op.out)] = {slot};
  }

  // Nothing that leaves the step is pending.
  void FinishResults() {
    const auto finish = [&](ValueId value) {
      if (value < 0 || copies_[AsIndex(value)].empty()) return;
      Sharding sharding = ShardingOf(Seen(value));
      if (sharding.partial == 0) return;
      sharding.partial = 0;
      Reshard(value, sharding);
    };
    op_ = -1;
    finish(graph_.loss);
    finish(graph_.logits);
    finish(graph_.gradient_norm);
    for (const Cache& cache : graph_.caches) finish(cache.after);
    out_.result.assign(graph_.values.size(), -1);
    for (size_t v = 0; v < copies_.size(); ++v) {
      if (!copies_[v].empty()) out_.result[v] = copies_[v].front();
    }
  }

  const LowerRequest& request_;
  const Graph& graph_;
  Unsupported& why_;
  ChoiceSettings settings_;
  Program out_;
  Phase phase_ = Phase::kForward;
  int32_t op_ = -1;
  std::vector<std::vector<int32_t>> copies_;  // by value: slots, seen one first
  const std::vector<char> weight_;            // by value
  std::vector<bool> gathered_;                // by slot
  std::vector<int32_t> fixed_;  // by value: the parameter it lies as, or -1
  std::vector<Sharding> parameter_;
  std::vector<PreferredSharding> preferred_;  // by value
  std::vector<char> constrained_;             // by value: the wish is an anchor
  std::vector<char> is_gradient_;
  std::vector<char> is_recomputed_;  // by op
  std::vector<Lowered> lowered_;     // by op that is run again
};

}  // namespace

std::optional<Program> Lower(const LowerRequest& request, Unsupported& why) {
  return Lowerer(request, why).Run();
}

}  // namespace shardc::step
