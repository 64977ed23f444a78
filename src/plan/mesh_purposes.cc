// Infers the kind of parallelism of each mesh axis from the name of the axis.
// An axis named dp, fsdp, tp, sp or ep has the parallelism of that name. Other
// names are looked up in the table of names that other systems use, such as
// `model` for tp. A kind of parallelism may have several axes. For example:
//
//   data:8,model:4  ->  fully_sharded_data_parallel: data,
//                       tensor_parallel: model
#include "plan/mesh_purposes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "facts/axes.h"
#include "model/name.h"
#include "plan/compile.h"
#include "source/wording.h"

namespace shardc {

using R = AxisRule;

MeshPurposes PurposesOf(const Mesh& mesh) {
  MeshPurposes out;
  const AxisRules defaults;
  const auto has_axis = [&](AxisRule rule) {
    return out.renamed.Given(rule).has_value() ||
           mesh.Find(defaults.Value(rule).axes.front()).has_value();
  };
  for (const MeshAxis& axis : mesh.axes) {
    const AxisName* const known = FindAxisName(axis.name);
    if (known != nullptr && known->rule &&
        defaults.Value(*known->rule).axes.front() == axis.name) {
      continue;
    }
    if (known != nullptr && !known->rule) {
      if (axis.size > 1) out.stages.push_back(axis.name);
      continue;
    }
    std::optional<AxisRule> rule;
    if (known != nullptr) rule = known->rule;
    // If the mesh has no axis for fsdp, an axis named `data` is used as fsdp.
    // It then shards the weights as well as the batch.
    if (known != nullptr && (known->name == "data" || known->name == "batch") &&
        !has_axis(R::kFullyShardedDataParallel)) {
      rule = R::kFullyShardedDataParallel;
    }
    if (!rule) {
      if (axis.size > 1) out.unknown.push_back(axis.name);
      continue;
    }
    AxisValue value{.is_null = false, .axes = {}};
    if (out.renamed.Given(*rule)) {
      value = *out.renamed.Given(*rule);
    } else if (has_axis(*rule)) {
      value = defaults.Value(*rule);
    }
    value.axes.push_back(axis.name);
    out.renamed.Set(*rule, std::move(value));
  }
  return out;
}

std::string AxesText(const AxisRules& axes) {
  std::string out;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const auto rule = static_cast<AxisRule>(i);
    const auto& value = axes.Given(rule);
    if (!value) continue;
    std::string names = Join(value->axes, ", ");
    if (value->axes.size() != 1) names = "[" + names + "]";
    AppendItem(out, ", ",
               std::string(AxisRuleName(rule)) + ": " +
                   (value->is_null ? "null" : names));
  }
  return "axes: {" + out + "}";
}

// Chooses whether the rules of a pack shard or replicate KV heads. A pack is a
// rules file that is compiled into the program. It replicates KV heads
// (`kv_head: null`) if the size of the axes for heads does not divide the
// number of KV heads. For example, Gemma 2B has one KV head, and Gemma 2 9B has
// eight:
//
//   tp 4, 1 KV head   ->  kv_head: null     tp 4, 8 KV heads  ->  kv_head: tp
//   tp 16, 8 KV heads ->  kv_head: null

namespace {

constexpr auto kAt = static_cast<size_t>(AxisRule::kKvHead);

}  // namespace

bool ChoosesByModel(const RuleSet& rules) {
  const std::optional<AxisValue>& given = rules.axes.given[kAt];
  const Place& place = rules.axes_places[kAt];
  const bool of_pack =
      place.source != nullptr && IsPackName(place.source->name());
  return of_pack && (!given || given->axes.empty());
}

void ChoosePackAxes(RuleSet& rules, const ModelConfig* model,
                    const Mesh& mesh) {
  FindKvHeads(rules, model);
  if (model == nullptr || !ChoosesByModel(rules)) return;
  std::optional<AxisValue>& given = rules.axes.given[kAt];
  // An earlier call of this function, for another mesh, may have set the axis
  // rule `kv_head: null`. The rule is first removed, so that Value() returns
  // the tensor-parallel axes, the default for KV heads. It is set again only if
  // these axes cannot shard the KV heads.
  given.reset();
  const int64_t heads = model->kv_heads.value_or(1);
  const int64_t parts =
      mesh.Parts(rules.axes.Value(AxisRule::kKvHead).axes).value_or(1);
  // With `kv_replicate`, heads that are fewer than the devices are divided over
  // them too.
  const bool divides =
      heads % parts == 0 || rules.policy.kv_replicate.value_or(false);
  if (parts == 1 || !divides) given = AxisValue{};
}

}  // namespace shardc
