// Computes the bytes that attention sends in a step. The bytes of the forward
// pass of one layer are multiplied by the number of layers and micro-batches.
// The bytes of the backward pass are added. For example, in ring attention a
// device sends 1 MiB of keys and values in the forward pass of a layer. With 32
// layers and 2 micro-batches it sends 64 MiB in the forward pass and 128 MiB in
// the backward pass.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "comm/collective.h"
#include "comm/memory.h"
#include "cost/communication.h"
#include "exec/attention/traffic.h"
#include "exec/machine/machine.h"
#include "exec/operations/operation.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc::cost {
namespace {

// On more devices than this, the bytes of attention are not computed, because
// the computation would take long.
constexpr int64_t kMostDevices = 8192;
// An upper bound on the constant factors in the formulas of bytes. The check
// for overflow multiplies the sizes by this bound.
constexpr int64_t kRoom = 1 << 10;

// Returns `number` times `layers`, rounded. A stage may have a fraction of a
// layer. Returns the largest 64-bit integer if the product is larger.
int64_t TimesLayers(int64_t number, double layers) {
  const double whole = std::floor(layers);
  const double rest = Real(number) * (layers - whole);
  return (Size(number) * static_cast<int64_t>(whole) +
          static_cast<int64_t>(std::min(std::round(rest), 9e18)))
      .value();
}

// Returns whether attention sends nothing, whatever its heads: no axis shards
// the tokens of a row or the elements of a head, and a device has the keys and
// values of its queries' heads.
bool IsLocal(const CostInputs& work) {
  constexpr size_t kBatch = 0, kTokens = 1, kHeads = 2, kElements = 3;
  const auto axes = [&](const Spec& spec, size_t dim) {
    return DropTrivial(work.mesh, dim < spec.size() ? spec[dim] : AxisGroup{});
  };
  const std::array specs = {&work.query, &work.key, &work.value, &work.output};
  return std::all_of(specs.begin(), specs.end(), [&](const Spec* spec) {
    const AxisGroup heads = axes(*spec, kHeads);
    const AxisGroup queries = axes(work.query, kHeads);
    return axes(*spec, kTokens).empty() && axes(*spec, kElements).empty() &&
           axes(*spec, kBatch) == axes(work.query, kBatch) &&
           heads.size() <= queries.size() &&
           std::equal(heads.begin(), heads.end(), queries.begin());
  });
}

// Adds the transfers of the layers whose attention has these sizes.
void AddLayers(const CostInputs& work, const Settings& settings,
               const AttentionSizes& sizes, double layers, Communication& out) {
  const exec::Operation& operation = *UsualOperation(work, settings);
  const AttentionBytes bytes = BytesOfAttention(
      operation, work.mesh, SpecsFor(operation, work), sizes, {});
  if (!bytes.unknown.empty()) {
    out.lacks_attention = true;
    out.unknown.push_back(
        {.what = "communication of attention: " + std::string(operation.name) +
                 " cannot run with these specs: " + bytes.unknown});
    return;
  }
  const int64_t repeats = settings.microbatches;
  for (Transfer one : bytes.transfers) {
    one.sent = TimesLayers(Times(one.sent, repeats), layers);
    one.count = std::max<int64_t>(TimesLayers(repeats, layers), 1);
    out.transfers.push_back(one);
    if (work.mode != Mode::kTrain) continue;
    const int64_t times = DefOf(one.kind).times_backward;
    one.backward = true;
    one.count = Times(one.count, times);
    one.sent = Times(one.sent, times);
    out.transfers.push_back(std::move(one));
  }
}

}  // namespace

void AddAttention(const CostInputs& work, const Settings& settings,
                  Communication& out) {
  if (work.LayersWithAttention() == 0) return;
  const auto sizes = AttentionSizesOf(work, settings);
  if (!sizes) {
    out.heads_known = false;
    out.lacks_attention = !IsLocal(work);
    out.unknown.push_back(
        {.what = std::string("the heads and their size, and with them ") +
                 (out.lacks_attention ? "communication and " : "") +
                 "operations of attention",
         .settled_by = "--model"});
    return;
  }
  const int64_t width = std::max(sizes->head_dim, sizes->value_dim);
  const Size rows = Size(sizes->batch) *
                    std::max(sizes->heads, sizes->key_heads) *
                    std::max(sizes->query_length, sizes->key_length);
  const Size all =
      rows * (Size(width) + sizes->latent_rank) * work.mesh.devices * kRoom;
  if (!all.Fits()) {
    out.lacks_attention = true;
    out.unknown.push_back(
        {.what =
             "communication of attention: its sizes do not fit in 64 bits"});
    return;
  }
  if (work.mesh.devices > kMostDevices) {
    out.lacks_attention = true;
    out.unknown.push_back(
        {.what = "communication of attention: computed for at most " +
                 CountText(kMostDevices) + " devices"});
    return;
  }
  const LayersByKvHeads by_heads = work.KvHeadsByShape();
  if (by_heads.empty()) {
    const double layers = work.LayersWithAttention().value_or(
        Real(work.model->layers.value_or(work.LayersWith(Role::kOutput))));
    AddLayers(work, settings, *sizes, layers, out);
  }
  for (const auto& [heads, layers] : by_heads) {
    AttentionSizes own = *sizes;
    own.key_heads = heads;
    AddLayers(work, settings, own, Real(layers), out);
  }
}

// Computes the bytes that an attention operation (exec::Operation) sends. Each
// operation has its own formula for these bytes. Before the formula is used,
// the operation is run on arrays that have a shape but no elements. This run
// only checks that the operation supports the shardings (specs) of its
// operands. For example, in ring attention over an axis sp of size 8, a device
// sends a block of K and a block of V, 64 MiB each, 7 times: 896 MiB.

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
