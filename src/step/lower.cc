// Lowers a graph op by op. For each op, the shardings of its operands are
// chosen (choose.h). A value may exist in several shardings, and each of these
// is a copy. An operand is resharded from the copy that is cheapest to reshard,
// and the new copy is kept for later ops. The op then runs on shards, and its
// result is resharded to its sharding constraint.
//
// Before any op is lowered, PropagatePreferred assigns preferred shardings to
// values without a constraint. Such a value prefers a sharding with which its
// only consumer needs no reshard. In this example, @normed is the sharding
// constraint of y:
//
//   y [b:dp t d] @normed, q [(n h):tp d:fsdp]
//     all_gather fsdp of q; linear q -> [b:dp t (n h):tp]
#include "step/lower.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "comm/collective.h"
#include "source/size.h"
#include "step/accumulate.h"
#include "step/constraints.h"
#include "step/op_def.h"
#include "step/program.h"

namespace shardc::step {
namespace {

// The shardings with which an op of the forward pass was lowered. The copy of
// the op in the backward pass gets the same shardings.
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
                 .policy = request.policy,
                 .records_conflicts = request.records_conflicts,
                 .labels = graph_.common};
  }

  std::optional<Program> Run() {
    if (out_.axes.count() >= kMaxAxes) {
      Fail("the mesh has more axes than a step's program can name", "", "");
      return std::nullopt;
    }
    settings_.data = out_.axes.SetOf(request_.constraints.data);
    copies_.resize(graph_.values.size());
    out_.notes = request_.constraints.notes;
    preferred_ = PropagatePreferred(request_, out_.axes, out_.notes);
    FindRecomputed();
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

  void FindRecomputed() {
    lowered_.resize(graph_.ops.size());
    is_recomputed_.assign(graph_.ops.size(), 0);
    for (const Op& op : graph_.ops) {
      if (op.recompute_of >= 0) is_recomputed_[AsIndex(op.recompute_of)] = 1;
    }
  }

  // Drops the gathered copies of weights before a forward or backward phase,
  // unless the request keeps them. The backward pass, and each micro-batch,
  // then gather the weights again.
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

  // Returns the first slot of a value (a slot is the value in one sharding).
  // Ops that read the value choose their axes by the sharding of this slot.
  int32_t Seen(ValueId value) const { return copies_[AsIndex(value)].front(); }

  // Appends the slices and collectives that reshard a slot to the sharding
  // `to`. Returns the slot of the result.
  int32_t EmitCollectives(int32_t from, const Sharding& to) {
    bool gathered = gathered_[AsIndex(from)];
    for (const ReshardStep& step : PlanReshard(ShardingOf(from), to)) {
      const ValueId value = out_.slots[AsIndex(from)].value;
      gathered = gathered || (step.kind == InstructionKind::kCollective &&
                              !DefOf(step.collective).reduces);
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

  // Returns a slot of the value with the sharding `to`. If there is no such
  // slot, reshards the slot of the value that is cheapest to reshard.
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
    // The reduced copy becomes the first one, from which later consumers start,
    // so that the value is reduced only once.
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
    if (op.kind == OpKind::kRoll && LowerRoll(op)) return true;
    if (op.recompute_of >= 0)
      return LowerRecomputed(op, lowered_[AsIndex(op.recompute_of)]);
    return DefOf(op.kind).structural ? LowerStructural(op) : LowerPlain(op);
  }

  // Lowers an op of the backward pass that rematerialises a forward op. Both
  // ops get the same shardings, so that they send the same bytes.
  bool LowerRecomputed(const Op& op, const Lowered& first) {
    std::vector<int32_t> operands;
    operands.reserve(op.in.size());
    for (size_t i = 0; i < op.in.size(); ++i) {
      operands.push_back(Reshard(op.in[i], first.operands[i]));
    }
    Finish(op, std::move(operands), first.result, first.maxima);
    return true;
  }

  // Lowers a sum of scalars. Each device first adds the scalars that are
  // partial over the same axes, and one collective then reduces their sum.
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

  const Sharding* PreferredOf(const Op& op) const {
    const PreferredSharding& preferred = preferred_[AsIndex(op.out)];
    return preferred.sharding.has_value() ? &*preferred.sharding : nullptr;
  }

  bool LowerStructural(const Op& op) {
    const Sharding from = ShardingOf(Seen(op.in[0]));
    Sharding have = from;
    // A partial operand is reduced before its heads are repeated, because the
    // repeated value is larger.
    if (op.kind == OpKind::kRepeat) have.partial = 0;
    const Structural passed = PassThrough(graph_, op, out_.axes, request_.sizes,
                                          have, PreferredOf(op));
    const int32_t operand = Reshard(op.in[0], passed.operand);
    Finish(op, {operand}, passed.result, {});
    return true;
  }

  // Lowers a roll of a dimension to a ppermute, if each device has a single
  // index of the dimension. Returns false if a device has several indices, or
  // if the roll is open, which means that zeros move in.
  bool LowerRoll(const Op& op) {
    const auto& roll = As<RollAttributes>(op);
    if (roll.open) return false;
    const int32_t from = Seen(op.in[0]);
    const std::vector<LabelId>& labels = ValueOf(op.out).labels;
    const size_t d = AsIndex(
        std::find(labels.begin(), labels.end(), roll.label) - labels.begin());
    const Sharding sharding = ShardingOf(from);
    const AxisList& axes = sharding.dims[d];
    if (axes.empty() ||
        out_.axes.Parts(axes) != request_.sizes[AsIndex(roll.label)]) {
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
                         .shift = roll.sign});
    copies_[AsIndex(op.out)] = {slot};
    return true;
  }

  bool LowerPlain(const Op& op) {
    if (!LabelsOf(graph_, op, labels_)) {
      return Fail("an op has more labels than a program can name", op.name, "");
    }
    terms_.clear();
    for (const ValueId value : op.in) terms_.push_back({value, -1});
    if (op.kind == OpKind::kAdd && op.phase == Phase::kBackward) AddPartial(op);
    SetViews();
    const ChoiceRequest request{
        .op = &op,
        .labels = &labels_,
        .operands = views_,
        .result = &ValueOf(op.out),
        .wanted = PreferredOf(op),
        .gradient = preferred_[AsIndex(op.out)].gradient};
    const Choice choice = Choose(settings_, request);
    std::vector<int32_t> operands;
    operands.reserve(terms_.size());
    for (size_t i = 0; i < terms_.size(); ++i) {
      operands.push_back(
          terms_[i].sum < 0
              ? Reshard(terms_[i].value, choice.operands[i])
              : EmitCollectives(terms_[i].sum, choice.operands[i]));
    }
    for (ShardingConflict conflict : choice.conflicts) {
      conflict.op = op_;
      out_.conflicts.push_back(std::move(conflict));
    }
    Finish(op, std::move(operands), choice.result, choice.maxima);
    return true;
  }

  // Adds on each device those terms of a sum that are partial over the same
  // axes, if the sum has other terms too. One collective then reduces them
  // together. For example, the cotangent of a layer's normed input is the sum
  // of that of the router, which is not partial, and of those of experts and
  // shared experts, which are partial over tp.
  void AddPartial(const Op& op) {
    const std::vector<LabelId>& labels = ValueOf(op.out).labels;
    const bool equal = std::all_of(
        op.in.begin(), op.in.end(),
        [&](ValueId value) { return ValueOf(value).labels == labels; });
    if (!equal) return;
    const auto sharding = [&](const Term& term) {
      return ShardingOf(Seen(term.value));
    };
    for (size_t i = 0; i < terms_.size(); ++i) {
      if (terms_[i].sum >= 0 || sharding(terms_[i]).partial == 0) continue;
      const Sharding own = sharding(terms_[i]);
      std::vector<size_t> alike;
      for (size_t j = i; j < terms_.size(); ++j) {
        const Term& term = terms_[j];
        if (term.sum < 0 && sharding(term) == own) alike.push_back(j);
      }
      if (alike.size() < 2 || alike.size() == terms_.size()) continue;
      std::vector<int32_t> slots;
      for (const size_t j : alike) slots.push_back(Seen(terms_[j].value));
      const int32_t sum = NewSlot(op.out, own, false);
      out_.code.push_back({.kind = InstructionKind::kLocal,
                           .op = op_,
                           .in = std::move(slots),
                           .out = sum,
                           .axes = {}});
      terms_[i] = {op.out, sum};
      for (size_t k = alike.size(); k > 1; --k) {
        const auto at = static_cast<int64_t>(alike[k - 1]);
        terms_.erase(terms_.begin() + at);
        labels_.of.erase(labels_.of.begin() + at);
      }
    }
  }

  // Sets `views_` to the terms of an op and their copies.
  void SetViews() {
    views_.clear();
    shardings_.clear();
    std::vector<size_t> counts;
    for (size_t i = 0; i < terms_.size(); ++i) {
      const auto [value, sum] = terms_[i];
      const bool repeated = std::any_of(
          terms_.begin(), terms_.begin() + int64_t(i), [&](const Term& term) {
            return term.sum < 0 && terms_[i].sum < 0 &&
                   term.value == terms_[i].value;
          });
      views_.push_back({.value = &ValueOf(value),
                        .sharding = &ShardingOf(sum < 0 ? Seen(value) : sum),
                        .copies = {},
                        .weight = weight_[AsIndex(value)] != 0,
                        .repeated = repeated});
      const size_t before = shardings_.size();
      if (sum >= 0) {
        shardings_.push_back(&ShardingOf(sum));
      } else {
        for (int32_t slot : copies_[AsIndex(value)]) {
          shardings_.push_back(&ShardingOf(slot));
        }
      }
      counts.push_back(shardings_.size() - before);
    }
    // The spans are set only now, because `shardings_` no longer grows and its
    // elements no longer move.
    std::span<const Sharding* const> rest(shardings_);
    for (size_t i = 0; i < terms_.size(); ++i) {
      const size_t count = counts[i];
      views_[i].copies = rest.first(count);
      rest = rest.subspan(count);
    }
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
    const PreferredSharding& preferred = preferred_[AsIndex(op.out)];
    if (preferred.constrained) {
      Sharding to = *preferred.sharding;
      if (preferred.keeps_partial) {
        to.partial =
            static_cast<AxisSet>(ShardingOf(slot).partial & ~to.sharded_over());
      }
      slot = EmitCollectives(slot, to);
      // This slot has the sharding that the value must have, so it is not an
      // additional copy, even if it was gathered. If it were marked as
      // gathered, EnterPhase() would drop it.
      gathered_[AsIndex(slot)] = false;
    }
    copies_[AsIndex(op.out)] = {slot};
  }

  // Reduces the results of the step that are still partial, and sets
  // Program::result.
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

  // The labels and operands of the op that is being lowered. They are members
  // so that the next op reuses their memory.
  OpLabels labels_;
  // An operand of the op: a value, or the slot of a sum of several operands
  // (AddPartial). `sum` is -1 for a value.
  struct Term {
    ValueId value = kNoValue;
    int32_t sum = -1;
  };
  std::vector<Term> terms_;
  std::vector<OperandView> views_;
  // The shardings of the copies in `views_`.
  std::vector<const Sharding*> shardings_;

  const LowerRequest& request_;
  const Graph& graph_;
  Unsupported& why_;
  ChoiceSettings settings_;
  Program out_;
  Phase phase_ = Phase::kForward;
  int32_t op_ = -1;
  // Indexed by ValueId: all slots of the value. Seen() returns the first one.
  std::vector<std::vector<int32_t>> copies_;
  // Indexed by ValueId: 1 if the value is treated as a weight, else 0.
  const std::vector<char> weight_;
  // Indexed by slot: true if the slot is a gathered copy.
  std::vector<bool> gathered_;
  // Indexed by ValueId: the preferred sharding of the value.
  std::vector<PreferredSharding> preferred_;
  // Indexed by op: 1 if an op of the backward pass rematerialises it.
  std::vector<char> is_recomputed_;
  // Indexed by op: how an op that is rematerialised was lowered.
  std::vector<Lowered> lowered_;
};

}  // namespace

std::optional<Program> Lower(const LowerRequest& request, Unsupported& why) {
  return Lowerer(request, why).Run();
}

// Finds the shardings that values must or should have. Parameters and updated
// parameters have the sharding that the plan assigns to the parameter.
// Gradients and moments have the same sharding, unless ZeRO shards them
// further. Other values may have a sharding constraint, which depends on their
// role.
//
// A pass over the ops in reverse order then propagates preferred shardings
// through ops with OpDef::passes_preference. If the result of such an op has a
// preferred sharding, an operand with a single consumer and no constraint gets
// a preferred sharding as well: the one from which the op computes its result
// without a reshard. For example:
//
//   d:q [(n h):tp d:fsdp] = merge(g [n h d]), the gradient of the parameter q
//   ->  g prefers [n:tp h d:fsdp], with which the merge needs no reshard

namespace {

class Propagation {
 public:
  Propagation(const LowerRequest& request, const Axes& axes,
              std::vector<std::string>& notes)
      : request_(request),
        graph_(*request.graph),
        axes_(axes),
        notes_(notes),
        out_(graph_.values.size()) {}

  std::vector<PreferredSharding> Run() {
    FindParameterOf();
    FindFirst();
    CountConsumers();
    for (size_t i = graph_.ops.size(); i > 0;) {
      --i;
      const Op& op = graph_.ops[i];
      if (op.recompute_of >= 0) continue;
      PreferredSharding& own = out_[AsIndex(op.out)];
      if (std::optional<Sharding> constraint = ConstraintOf(op)) {
        own = {constraint, is_gradient_[AsIndex(op.out)] != 0, true,
               sharded_as_[AsIndex(op.out)] == As::kSum ||
                   KeepsPartial(request_.constraints, axes_, op.constraint,
                                op.phase == Phase::kForward)};
      }
      if (own.sharding.has_value()) PassOn(op, own);
    }
    for (const Op& op : graph_.ops) {
      if (op.recompute_of < 0) continue;
      const ValueId first = graph_.ops[AsIndex(op.recompute_of)].out;
      out_[AsIndex(op.out)] = out_[AsIndex(first)];
    }
    return std::move(out_);
  }

 private:
  const Value& ValueOf(ValueId value) const {
    return graph_.values[AsIndex(value)];
  }

  // ZeRO may shard a parameter, its optimizer states, and its accumulated
  // gradients differently. Each enumerator names one of these three shardings.
  enum class As : uint8_t { kParameter, kState, kSum };

  // Finds the values that must have a sharding of a parameter. Records for each
  // of these values the parameter, and which of its three shardings (As) the
  // value has.
  void FindParameterOf() {
    parameter_of_.assign(graph_.values.size(), -1);
    sharded_as_.assign(graph_.values.size(), As::kParameter);
    is_gradient_.assign(graph_.values.size(), 0);
    const auto set = [&](ValueId value, size_t parameter, As as) {
      if (value < 0) return;
      parameter_of_[AsIndex(value)] = static_cast<int32_t>(parameter);
      sharded_as_[AsIndex(value)] = as;
    };
    const auto set_all = [&](const std::vector<ValueId>& values, As as) {
      for (size_t i = 0; i < values.size(); ++i) set(values[i], i, as);
    };
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      set(graph_.parameters[i].value, i, As::kParameter);
    }
    set_all(graph_.gradients, As::kState);
    set_all(graph_.updated, As::kParameter);
    for (const auto* list : {&graph_.moments, &graph_.updated_moments}) {
      for (size_t i = 0; i < list->size(); ++i) {
        set((*list)[i].first, i, As::kState);
        set((*list)[i].second, i, As::kState);
      }
    }
    for (const ValueId value : graph_.gradients) {
      if (value >= 0) is_gradient_[AsIndex(value)] = 1;
    }
    FindMicroGradients();
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      const Sharding own = ShardingBy(request_.parameters, i);
      const auto other = [&](const std::vector<Spec>& specs) {
        return specs.empty() ? own : ShardingBy(specs, i);
      };
      shardings_.push_back({own, other(request_.states), other(request_.sums)});
    }
  }

  // With `--reduce each`, the gradients of each micro-batch (constraint
  // `grad:ROLE`) get the sharding of the gradients of the complete step. With
  // `--reduce sharded` (constraint `part:ROLE`) they get the sharding of
  // accumulated gradients, LowerRequest::sums.
  void FindMicroGradients() {
    std::map<std::pair<std::string_view, int32_t>, int32_t> known;
    for (size_t i = 0; i < graph_.parameters.size(); ++i) {
      const Parameter& parameter = graph_.parameters[i];
      known[{parameter.role, parameter.layer}] = static_cast<int32_t>(i);
    }
    for (const Op& op : graph_.ops) {
      constexpr std::string_view kGradient = "grad:";
      if (op.micro < 0) continue;
      int32_t& parameter = parameter_of_[AsIndex(op.out)];
      const bool sums = op.constraint.starts_with(kPartOfGradient);
      if (sums || op.constraint.starts_with(kGradient)) {
        static_assert(kGradient.size() == kPartOfGradient.size());
        const auto found = known.find(
            {std::string_view(op.constraint).substr(kGradient.size()),
             op.layer});
        if (found != known.end()) {
          parameter = found->second;
          sharded_as_[AsIndex(op.out)] = sums ? As::kSum : As::kState;
        }
      }
      if (op.phase == Phase::kBackward && parameter >= 0) {
        is_gradient_[AsIndex(op.out)] = 1;
      }
    }
  }

  Sharding ShardingBy(const std::vector<Spec>& specs, size_t i) const {
    const Value& value = ValueOf(graph_.parameters[i].value);
    Sharding out;
    out.rank = static_cast<uint8_t>(std::min(value.labels.size(), kMaxRank));
    if (i >= specs.size()) return out;
    const Spec& spec = specs[i];
    for (size_t d = 0; d < out.rank && d < spec.size(); ++d) {
      out.dims[d] = axes_.Of(spec[d]);
    }
    return out;
  }

  // Maps each rematerialised value to the forward value that it repeats.
  void FindFirst() {
    first_.resize(graph_.values.size());
    for (size_t v = 0; v < first_.size(); ++v) {
      first_[v] = static_cast<ValueId>(v);
    }
    for (const Op& op : graph_.ops) {
      if (op.recompute_of < 0) continue;
      first_[AsIndex(op.out)] = graph_.ops[AsIndex(op.recompute_of)].out;
    }
  }

  void CountConsumers() {
    consumers_.assign(graph_.values.size(), 0);
    for (const Op& op : graph_.ops) {
      if (op.recompute_of >= 0) continue;
      for (const ValueId value : op.in) {
        ++consumers_[AsIndex(first_[AsIndex(value)])];
      }
    }
  }

  std::optional<Sharding> ConstraintOf(const Op& op) {
    const int32_t parameter = parameter_of_[AsIndex(op.out)];
    if (parameter >= 0) {
      const auto as = static_cast<size_t>(sharded_as_[AsIndex(op.out)]);
      return shardings_[AsIndex(parameter)][as];
    }
    if (op.constraint.empty()) return std::nullopt;
    if (op.phase != Phase::kForward && IsForwardOnly(op.constraint)) {
      return std::nullopt;
    }
    return ConstrainedSharding(request_.constraints, axes_, graph_,
                               request_.sizes, op.constraint,
                               ValueOf(op.out).labels, notes_);
  }

  // Sets the preferred sharding of the first operand or, for a sum, of each
  // operand. With this sharding the op computes its result in the sharding
  // `own` without a reshard. Operands that other ops also read are left out.
  void PassOn(const Op& op, const PreferredSharding& own) {
    const OpDef& def = DefOf(op.kind);
    if (!def.passes_preference) return;
    const std::vector<LabelId>& result = ValueOf(op.out).labels;
    for (const ValueId value : op.in) {
      const std::vector<LabelId>& labels = ValueOf(value).labels;
      const ValueId first = first_[AsIndex(value)];
      if (consumers_[AsIndex(first)] != 1) continue;
      if (labels.size() != result.size() && !def.structural) continue;
      const bool is_sum = op.kind == OpKind::kAdd;
      if (is_sum ? labels != result : value != op.in[0]) continue;
      out_[AsIndex(first)] = {
          PullBack(graph_, op, axes_, request_.sizes, *own.sharding),
          own.gradient, false, false};
    }
  }

  const LowerRequest& request_;
  const Graph& graph_;
  const Axes& axes_;
  std::vector<std::string>& notes_;
  // Indexed by ValueId: the preferred sharding of the value.
  std::vector<PreferredSharding> out_;
  // Indexed by ValueId: the parameter whose sharding the value has, or -1.
  std::vector<int32_t> parameter_of_;
  // Indexed by ValueId: which of the parameter's shardings the value has.
  std::vector<As> sharded_as_;
  // The shardings of parameters, indexed by parameter and then by As.
  std::vector<std::array<Sharding, 3>> shardings_;
  // Indexed by ValueId: 1 if the value is a gradient, else 0.
  std::vector<char> is_gradient_;
  // Indexed by ValueId: the forward value of a rematerialised value, or else
  // the value itself.
  std::vector<ValueId> first_;
  // Indexed by ValueId: the number of times that ops read the value. A read of
  // a rematerialised copy is counted as a read of the forward value. Reads by
  // ops that rematerialise a value are not counted.
  std::vector<int32_t> consumers_;
};

}  // namespace

std::vector<PreferredSharding> PropagatePreferred(
    const LowerRequest& request, const Axes& axes,
    std::vector<std::string>& notes) {
  return Propagation(request, axes, notes).Run();
}

}  // namespace shardc::step
