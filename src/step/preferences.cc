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
#include "step/preferences.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "source/index.h"
#include "step/accumulate.h"
#include "step/factors.h"
#include "step/op_def.h"

namespace shardc::step {
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
