// Chooses whether the rules of a pack shard or replicate KV heads. A pack is a
// rules file that is compiled into the program. It replicates KV heads
// (`kv_head: null`) if the size of the axes for heads does not divide the
// number of KV heads. For example, Gemma 2B has one KV head, and Gemma 2 9B has
// eight:
//
//   tp 4, 1 KV head   ->  kv_head: null     tp 4, 8 KV heads  ->  kv_head: tp
//   tp 16, 8 KV heads ->  kv_head: null
#include "plan/pack_axes.h"

#include "model/pack_name.h"
#include "plan/kv_replicas.h"

namespace shardc {
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
