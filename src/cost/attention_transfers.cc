// Computes the bytes that attention sends in a step. The bytes of the forward
// pass of one layer are multiplied by the number of layers and micro-batches.
// The bytes of the backward pass are added. For example, in ring attention a
// device sends 1 MiB of keys and values in the forward pass of a layer. With 32
// layers and 2 micro-batches it sends 64 MiB in the forward pass and 128 MiB in
// the backward pass.
#include "cost/attention_transfers.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "comm/collective_def.h"
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

// Adds the transfers of the layers whose attention has these sizes.
void AddLayers(const CostInputs& work, const Settings& settings,
               const AttentionSizes& sizes, double layers, Communication& out) {
  const exec::Operation& operation = *UsualOperation(work, settings);
  const AttentionBytes bytes = BytesOfAttention(
      operation, work.mesh, SpecsFor(operation, work), sizes, {});
  if (!bytes.unknown.empty()) {
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
    out.unknown.push_back(
        {.what = "the heads and their size, and with them communication and "
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
    out.unknown.push_back(
        {.what =
             "communication of attention: its sizes do not fit in 64 bits"});
    return;
  }
  if (work.mesh.devices > kMostDevices) {
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

}  // namespace shardc::cost
