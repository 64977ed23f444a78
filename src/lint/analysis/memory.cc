// Computes the memory of the device that needs the most. Replicated and sharded
// parameters need the same bytes on all devices. A placed parameter is stored
// only at one coordinate of an axis, so the bytes of placed parameters are
// added up for each coordinate, and the largest sum is used. The result is the
// memory in the mode that needs the most. For example:
//
//   3 experts of 1 GiB, placed on the axis ep of size 2
//     ->  the two coordinates hold 2 and 1 GiB, and 2 GiB is the result
#include "lint/analysis/memory.h"

#include <algorithm>
#include <vector>

#include "comm/memory.h"
#include "lint/analysis/heads.h"
#include "plan/compile.h"
#include "plan/planned_stages.h"
#include "resolve/resolve.h"
#include "source/size.h"
#include "source/wording.h"

namespace shardc {
namespace {

int64_t ParameterBytes(const Facts& facts, Mode mode) {
  HeldBytes held;
  for (const PlannedParam& param : facts.plan().params) {
    const ParamLayout& layout = facts.plan().layouts[param.layout];
    const int64_t bytes = LayoutIn(layout, mode).bytes_per_device.value_or(0);
    const auto coordinate = facts.plan().CoordinateOf(param);
    if (!coordinate || layout.rule < 0) {
      held.Add(bytes);
      continue;
    }
    held.AddAt(facts.PlacementAxis(layout), *coordinate, bytes);
  }
  return held.Fullest().value_or(INT64_MAX);
}

// Returns the number of layers in all stages of a rank.
int64_t LayersOfRank(const PlannedStages& stages, int32_t rank) {
  int64_t out = 0;
  for (int32_t s = 0; s < stages.stages(); ++s) {
    if (stages.table.Holds(rank, s)) {
      out += stages.LayersOf(s).count();
    }
  }
  return out;
}

// Finds the pipeline rank that needs the most memory in the mode `use.mode`,
// and sets `use.rank` to it. Sets `use.parameters` to the bytes of the rank's
// parameters, and `use.cache` to the bytes of the KV cache of the rank's
// layers.
void TakeFullestRank(const Facts& facts, const PlannedStages& stages,
                     MemoryUse& use) {
  const int64_t whole = use.cache;
  const auto bytes = ParameterBytesByRank(facts.plan(), use.mode);
  int64_t most = -1;
  for (size_t r = 0; r < bytes.size(); ++r) {
    const auto rank = static_cast<int32_t>(r);
    const int64_t parameters = bytes[r].value_or(0);
    const int64_t layers = std::max<int64_t>(1, stages.units.layers);
    const int64_t cache =
        whole / layers *
        std::min(layers, whole == 0 ? 0 : LayersOfRank(stages, rank));
    const int64_t total = (Size(parameters) + cache).value();
    if (total <= most) continue;
    most = total;
    use.parameters = parameters;
    use.cache = cache;
    use.rank = rank;
  }
}

}  // namespace

std::string MemoryUse::Device() const {
  return rank < 0 ? "a device" : "a device of rank " + std::to_string(rank);
}

std::string MemoryUse::ToString() const {
  std::string out = BytesText(parameters) + " of parameters";
  if (cache > 0) out += " and " + BytesText(cache) + " of KV cache";
  return out;
}

std::optional<MemoryUse> MostMemory(const Facts& facts) {
  std::optional<MemoryUse> most;
  for (const Mode mode : facts.plan().modes) {
    MemoryUse use;
    use.mode = mode;
    use.parameters = ParameterBytes(facts, mode);
    if (mode != Mode::kTrain) {
      use.cache = CacheBytesPerDevice(facts, mode).value_or(0);
    }
    if (const PlannedStages* stages = facts.compiled().stages.get()) {
      TakeFullestRank(facts, *stages, use);
    }
    if (CheckedAdd(use.parameters, use.cache) &&
        (!most || use.Total() > most->Total())) {
      most = use;
    }
  }
  return most;
}

// Computes the bytes of a KV cache in bfloat16: 4 (two bytes each for key and
// value) times layers, batch, length, KV heads and head size. On a device, each
// size is divided by the number of shards of its dimension and rounded up. For
// example, 32 layers, batch 8, length 8192, and 8 KV heads of size 128:
//
//   in total                                             8 GiB
//   on a device, batch over dp 2 and KV heads over tp 4  1 GiB

namespace {

std::optional<std::vector<CacheSizes>> CachesOf(const Facts& facts) {
  if (facts.model() == nullptr || !facts.inputs().batch ||
      !facts.inputs().kv_len || !HeadsOf(*facts.model()) ||
      (facts.has() & kNeedsHeads) == 0) {
    return std::nullopt;
  }
  return CachesOf(*facts.model(), *facts.inputs().batch, *facts.inputs().kv_len,
                  Dtype::kBF16);
}

}  // namespace

Spec AttentionSpecOf(const Facts& facts, Mode mode, std::string_view tensor) {
  for (const AttentionTensor& one :
       AttentionSpecs(*facts.compiled().resolver, mode, {})) {
    if (one.name == tensor) return one.resolved.spec;
  }
  return {};
}

AxisGroup AttentionAxes(const Facts& facts, Mode mode, std::string_view tensor,
                        AttentionDim dim) {
  const Spec spec = AttentionSpecOf(facts, mode, tensor);
  const auto at = static_cast<size_t>(dim);
  return at < spec.size() ? spec[at] : AxisGroup{};
}

std::optional<int64_t> CacheBytes(const Facts& facts) {
  const auto caches = CachesOf(facts);
  return caches ? CacheBytesPerDevice(*caches, {}) : std::nullopt;
}

std::optional<int64_t> CacheBytesPerDevice(const Facts& facts, Mode mode) {
  const auto caches = CachesOf(facts);
  if (!caches || !CacheBytesPerDevice(*caches, {})) return std::nullopt;
  const auto parts = [&](AttentionDim dim) {
    return facts.mesh()
        .Parts(AttentionAxes(facts, mode, "key", dim))
        .value_or(1);
  };
  return CacheBytesPerDevice(
      *caches, {parts(kBatchDim), parts(kLengthDim), parts(kHeadsDim)});
}

bool Plans(const Facts& facts, Mode mode) {
  const auto& modes = facts.plan().modes;
  return std::find(modes.begin(), modes.end(), mode) != modes.end();
}

}  // namespace shardc
