// Chooses the spec of each parameter group. One side of a weight matrix is the
// model's width (its hidden size). The other side is an inner dimension, such
// as heads or a feed-forward width. Tensor parallelism shards the inner
// dimension, and data axes shard the width.
//
// Four passes choose, in this order: a strategy for the weights of each
// attention or MLP block, a spec for each weight, the specs of vectors (biases,
// scales, one number per head), and the `axes:` section of the rules file. For
// example:
//
//   q_proj [4096, 4096], fsdp 16, tp 4  ->  [HEAD, [FSDP, SP]]: HEAD shards
//                                           dimension 0, FSDP and SP shard
//                                           dimension 1
//   q_proj.bias [4096]                  ->  [HEAD]
//   71 heads, tp 8                      ->  axes: {head: null}, because tp does
//                                           not divide the heads
#include "suggest/choose.h"

#include <utility>

#include "suggest/companion_spec.h"
#include "suggest/strategies.h"
#include "suggest/weight_spec.h"

namespace shardc::suggest {
namespace {

// Returns the mesh axes over which the batch is sharded: fsdp, ep and dp. The
// expert axis ep is one of them, because it shards tokens as well as experts.
AxisGroup BatchOverExperts(const AxisRules& axes) {
  AxisGroup batch;
  for (AxisRule rule : {AxisRule::kFullyShardedDataParallel,
                        AxisRule::kExpertParallel, AxisRule::kDataParallel}) {
    const auto value = axes.Value(rule);
    batch.insert(batch.end(), value.axes.begin(), value.axes.end());
  }
  return batch;
}

}  // namespace

void SetAxisRules(const ModelDims& dims, const MeshAxes& mesh, Choices& out) {
  bool attention = false, heads = false, keys = false, kv_heads = false;
  for (size_t k = 0; k < dims.groups.size(); ++k) {
    const Role role = dims.groups[k].role;
    if (!IsAttention(role)) continue;
    bool& seen = IsKeyOrValue(role) ? keys : attention;
    bool& sharded = IsKeyOrValue(role) ? kv_heads : heads;
    seen = true;
    sharded = sharded || out.groups[k].inner_sharded;
  }
  const bool tensor = mesh.tp > 1;
  out.heads_unsharded = tensor && attention && !heads;
  out.kv_heads_unsharded = tensor && (keys ? !kv_heads : attention && !heads);
  out.batch_over_experts = mesh.ep > 1;
  out.axes = mesh.renamed;
  if (out.heads_unsharded) out.axes.Set(AxisRule::kHead, {});
  if (out.kv_heads_unsharded) out.axes.Set(AxisRule::kKvHead, {});
  if (tensor) out.axes.Set(AxisRule::kHiddenState, {});
  if (out.batch_over_experts) {
    out.axes.Set(AxisRule::kBatch, {false, BatchOverExperts(out.axes)});
  }
  if (mesh.sp > 1) out.axes.Set(AxisRule::kDecodeQuerySequence, {false, {}});
}

Choices Choose(const Tree& tree, const ModelDims& dims, const MeshAxes& mesh,
               const Preferences& preferences) {
  const SpecChooser specs(tree, dims, mesh, preferences);
  const auto strategies =
      ChooseStrategies(tree, dims, mesh, preferences, specs);
  Choices out;
  out.groups.resize(dims.groups.size());
  for (size_t k = 0; k < dims.groups.size(); ++k) {
    if (IsCompanion(dims.groups[k].role)) continue;
    out.groups[k] = specs.Choose(k, strategies[k]);
  }
  for (size_t k = 0; k < dims.groups.size(); ++k) {
    const InferredDims& one = dims.groups[k];
    if (IsHeadVector(one.role)) {
      out.groups[k] = ChooseForHeadVector(k, dims, out.groups);
    } else if (IsCompanion(one.role) && one.weight >= 0) {
      out.groups[k] = ChooseForCompanion(one, dims, out.groups);
    } else if (one.role == Role::kScale && !specs.IsSmall(k)) {
      out.groups[k] = specs.Choose(k, TensorParallelStrategy::kInner);
    }
  }
  SetAxisRules(dims, mesh, out);
  return out;
}

}  // namespace shardc::suggest
