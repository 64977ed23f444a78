// Computes the bytes that an attention operation (exec::Operation) sends. Each
// operation has its own formula for these bytes. Before the formula is used,
// the operation is run on arrays that have a shape but no elements. This run
// only checks that the operation supports the shardings (specs) of its
// operands. For example, in ring attention over an axis sp of size 8, a device
// sends a block of K and a block of V, 64 MiB each, 7 times: 896 MiB.
#include <algorithm>
#include <utility>

#include "comm/memory.h"
#include "cost/communication.h"
#include "exec/attention/traffic.h"
#include "exec/machine/machine.h"
#include "exec/operations/all.h"

namespace shardc::cost {
namespace {

using exec::Buffer;

exec::AttentionProblem HollowProblem(const exec::Operation& operation,
                                     const AttentionSizes& n) {
  exec::AttentionProblem out;
  const int64_t value_dim = n.value_dim > 0 ? n.value_dim : n.head_dim;
  // Latent attention has the latent as an operand, and also the keys and values
  // that are computed from it. Those keys and values have as many heads as the
  // queries.
  const int64_t keys = operation.latent ? n.heads : n.key_heads;
  out.query =
      Buffer::Hollow({n.batch, n.query_length, n.heads, n.head_dim}, n.dtype);
  out.key =
      Buffer::Hollow({n.batch, n.key_length, keys, n.head_dim}, n.key_dtype);
  out.value =
      Buffer::Hollow({n.batch, n.key_length, keys, value_dim}, n.key_dtype);
  out.options.causal = true;
  if (operation.latent) {
    const int64_t plain = n.head_dim - n.latent_rope_dim;
    out.latent = exec::LatentInputs{
        Buffer::Hollow({n.batch, n.key_length, n.latent_rank}, n.key_dtype),
        Buffer::Hollow({n.batch, n.key_length, n.latent_rope_dim}, n.key_dtype),
        Buffer::Hollow({n.heads, n.latent_rank, plain}, n.dtype),
        Buffer::Hollow({n.heads, n.latent_rank, value_dim}, n.dtype)};
  }
  return out;
}

}  // namespace

std::optional<AttentionSizes> AttentionSizesOf(const CostInputs& work,
                                               const Settings& settings) {
  const auto& model = work.model;
  const bool train = work.mode == Mode::kTrain;
  if (!model || !model->heads || !model->head_dim) return std::nullopt;
  AttentionSizes out;
  out.batch = ShareOf(*settings.batch, settings.microbatches);
  out.query_length =
      train || !IsGeneration(work.mode) ? settings.length.value_or(1) : 1;
  out.key_length = IsGeneration(work.mode) ? settings.kv_length.value_or(1)
                                           : out.query_length;
  out.heads = *model->heads;
  out.key_heads = model->kv_heads.value_or(out.heads);
  out.head_dim = *model->head_dim;
  out.value_dim =
      model->latent_value_dim.value_or(model->value_dim.value_or(0));
  out.latent_rank = model->latent_rank.value_or(0);
  out.latent_rope_dim = model->latent_rope_dim.value_or(0);
  out.dtype = settings.activations;
  out.key_dtype =
      train || settings.cache == Dtype::kI8 ? out.dtype : settings.cache;
  return out;
}

exec::AttentionSpecs SpecsFor(const exec::Operation& operation,
                              const CostInputs& work) {
  exec::AttentionSpecs out;
  out.query = work.query;
  out.key = work.key;
  out.value = work.value;
  out.output = work.output;
  if (operation.heads_on_keys) out.key[2] = out.value[2] = work.query[2];
  return out;
}

AttentionBytes BytesOfAttention(const exec::Operation& operation,
                                const Mesh& mesh,
                                const exec::AttentionSpecs& specs,
                                const AttentionSizes& sizes,
                                const exec::OperationSettings& settings) {
  AttentionBytes out;
  const exec::SimMesh sim(mesh);
  const exec::AttentionProblem problem = HollowProblem(operation, sizes);
  exec::Machine machine(sim);
  const exec::OperationOutcome outcome =
      operation.run(machine, problem, specs, settings);
  if (outcome.unsupported) {
    out.unknown = outcome.unsupported->message;
    return out;
  }
  exec::Traffic traffic(sim, problem, specs, settings);
  operation.bytes(traffic);
  for (const exec::Traffic::Step& step : traffic.steps()) {
    Transfer one;
    one.part = "attention";
    one.kind = step.kind;
    one.axes = step.axes;
    one.count = 1;
    one.sent = *std::max_element(step.sent.begin(), step.sent.end());
    if (one.sent > 0) out.transfers.push_back(std::move(one));
  }
  return out;
}

const exec::Operation* UsualOperation(const CostInputs& work,
                                      const Settings& settings) {
  if (settings.operation != nullptr) return settings.operation;
  const bool latent = work.model && work.model->latent_rank;
  if (IsGeneration(work.mode)) {
    return latent ? &exec::kLatent : &exec::kFlashDecoding;
  }
  return &exec::kFlashAttention;
}

}  // namespace shardc::cost
