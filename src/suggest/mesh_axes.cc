// Infers the kind of parallelism of each mesh axis from the name of the axis.
// An axis named dp, fsdp, tp, sp or ep has the parallelism of that name. Other
// names are looked up in a table of names that other systems use, such as
// `model` for tp. If a different axis of the mesh already has this parallelism,
// the parallelism of the axis stays unknown. For example:
//
//   data:8,model:4  ->  fsdp 8, tp 4
//
// The suggested file then has axis rules that map fsdp to `data` and tp to
// `model`.
#include "suggest/mesh_axes.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace shardc::suggest {
namespace {

struct Synonym {
  std::string_view name;
  AxisRule rule;
};
constexpr Synonym kSynonyms[] = {
    {"model", AxisRule::kTensorParallel},
    {"mp", AxisRule::kTensorParallel},
    {"mdl", AxisRule::kTensorParallel},
    {"tensor", AxisRule::kTensorParallel},
    {"tensor_parallel", AxisRule::kTensorParallel},
    {"fully_sharded_data_parallel", AxisRule::kFullyShardedDataParallel},
    {"shard", AxisRule::kFullyShardedDataParallel},
    {"dp_shard", AxisRule::kFullyShardedDataParallel},
    {"zero", AxisRule::kFullyShardedDataParallel},
    {"data", AxisRule::kDataParallel},
    {"replica", AxisRule::kDataParallel},
    {"dp_replicate", AxisRule::kDataParallel},
    {"data_parallel", AxisRule::kDataParallel},
    {"expert", AxisRule::kExpertParallel},
    {"experts", AxisRule::kExpertParallel},
    {"expert_parallel", AxisRule::kExpertParallel},
    {"seq", AxisRule::kSequenceParallel},
    {"sequence", AxisRule::kSequenceParallel},
    {"context", AxisRule::kSequenceParallel},
    {"cp", AxisRule::kSequenceParallel},
    {"sequence_parallel", AxisRule::kSequenceParallel},
};

}  // namespace

MeshAxes AxesOf(const Mesh& mesh) {
  MeshAxes out;
  const std::pair<AxisRule, int64_t*> sizes[] = {
      {AxisRule::kDataParallel, &out.dp},
      {AxisRule::kFullyShardedDataParallel, &out.fsdp},
      {AxisRule::kTensorParallel, &out.tp},
      {AxisRule::kSequenceParallel, &out.sp},
      {AxisRule::kExpertParallel, &out.ep}};
  const auto has_axis = [&](AxisRule rule) {
    return out.renamed.Given(rule).has_value() ||
           mesh.Find(AxisRules().Value(rule).axes.front()).has_value();
  };
  const auto take = [&](AxisRule rule, const MeshAxis& axis, bool rename) {
    for (const auto& [known, size] : sizes) {
      if (known == rule) *size = axis.size;
    }
    if (rename) out.renamed.Set(rule, {false, {axis.name}});
  };
  std::vector<const MeshAxis*> others;
  for (const MeshAxis& axis : mesh.axes) {
    bool own = false;
    for (const auto& [rule, size] : sizes) {
      if (AxisRules().Value(rule).axes.front() != axis.name) continue;
      take(rule, axis, false);
      own = true;
    }
    if (!own) others.push_back(&axis);
  }
  for (const MeshAxis* axis : others) {
    const auto* known = std::find_if(
        std::begin(kSynonyms), std::end(kSynonyms),
        [&](const Synonym& synonym) { return synonym.name == axis->name; });
    AxisRule rule =
        known == std::end(kSynonyms) ? AxisRule::kBatch : known->rule;
    // If the mesh has no axis for fsdp, an axis named `data` is used as fsdp.
    // It then shards the weights as well as the batch.
    if (rule == AxisRule::kDataParallel && axis->name == "data" &&
        !has_axis(AxisRule::kFullyShardedDataParallel)) {
      rule = AxisRule::kFullyShardedDataParallel;
    }
    if (known == std::end(kSynonyms) || has_axis(rule)) {
      if (axis->size > 1) out.unused.push_back(axis->name);
    } else {
      take(rule, *axis, true);
    }
  }
  return out;
}

}  // namespace shardc::suggest
