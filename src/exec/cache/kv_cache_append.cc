// Writes new tokens to the cache. If the length of S slots is sharded over n
// ranks, each rank has L = S/n slots. Rank r has the slots in [r L, (r + 1) L).
// It writes the new positions whose slot is in this range, at index slot - r L
// of its shard. Exactly one rank therefore writes each position.
//
// For example, S = 8 slots are sharded over 4 ranks, and 3 tokens are written
// from position 3 on. Rank 1 writes position 3 to its slot 1, and rank 2 writes
// positions 4 and 5 to its slots 0 and 1. Ranks 0 and 3 write nothing.
//
// tests/exec/cache/kv_cache_test.cc checks this for all indices and counts.
#include <algorithm>
#include <string>
#include <utility>

#include "exec/cache/kv_cache.h"
#include "exec/kernels/arithmetic.h"
#include "exec/kernels/quantize.h"
#include "floats/convert.h"
#include "source/index.h"

namespace shardc::exec {
namespace {

// The tokens of one write, in the cache's layout but with the length unsharded.
struct Tokens {
  ShardedTensor values;  // [B, n, K, D]
  ShardedTensor scales;  // [B, n, K]; only if the cache is I8
};

bool Fits(const KvCache& cache, const ShardedTensor& key,
          const ShardedTensor& value, const std::vector<int64_t>& counts,
          LayoutError& why) {
  const CacheConfig& config = cache.config;
  Shape want = cache.key.shape;
  if (key.shape.size() == 4) want[1] = key.shape[1];
  if (key.shape != want || value.shape != want || want[1] < 1) {
    why.message = "new tokens " + ShapeText(key.shape) + " and " +
                  ShapeText(value.shape) + " do not fit a cache of " +
                  ShapeText(cache.key.shape);
    return false;
  }
  for (int64_t b = 0; b < config.batch; ++b) {
    const int64_t count = counts.empty() ? want[1] : counts[AsIndex(b)];
    const int64_t index = cache.index[AsIndex(b)];
    why.position = {b, index};
    if (index < 0) {
      why.message = "row " + std::to_string(b) + " is at position " +
                    std::to_string(index);
      why.help = "positions count from 0";
      return false;
    }
    if (count < 0 || count > want[1]) {
      why.message = "row " + std::to_string(b) + " takes " +
                    std::to_string(count) + " of " + std::to_string(want[1]) +
                    " new tokens";
      return false;
    }
    // Slots are reused. The last of the new tokens must not overwrite a key
    // that is still in the window of the first new token.
    if (cache.Rolls() && config.window + count - 1 > config.max_length) {
      why.message = "a window of " + std::to_string(config.window) + " and " +
                    std::to_string(count) + " new tokens need " +
                    std::to_string(config.window + count - 1) +
                    " slots, the cache has " +
                    std::to_string(config.max_length);
      why.help = "write smaller chunks or give the cache more slots";
      return false;
    }
    if (!cache.Rolls() && index + count > config.max_length) {
      why.message = "row " + std::to_string(b) + " writes " +
                    std::to_string(count) + " at position " +
                    std::to_string(index) + " of " +
                    std::to_string(config.max_length);
      why.help = "raise the cache's length or start a new one";
      return false;
    }
  }
  why = {};
  return true;
}

// Returns the largest |x| of each row of D elements, [B, n, K]. If D is
// sharded, the maximum over all devices that share a row is computed.
PerDevice RowMaxima(Machine& machine, const ShardedTensor& tokens,
                    std::string_view what) {
  PerDevice out(tokens.local.size());
  machine.Local([&](int device) {
    const Buffer& local = tokens.local[AsIndex(device)];
    const int64_t dim = local.shape[3];
    Buffer& to = out[AsIndex(device)];
    to = Buffer::Zeros({local.shape[0], local.shape[1], local.shape[2]},
                       Dtype::kF32);
    for (size_t row = 0; row < to.real.size(); ++row) {
      const std::span<const float> x(local.real.data() + row * AsIndex(dim),
                                     AsIndex(dim));
      to.real[row] = LargestMagnitude(x);
    }
  });
  const AxisGroup& axes = tokens.spec[3];
  if (machine.mesh().Parts(axes) == 1) return out;
  return AllReduce(machine, axes, out, Reduce::kMax, what);
}

void QuantizeTokens(Machine& machine, Tokens& tokens, std::string_view what) {
  const Spec& spec = tokens.values.spec;
  const Shape& shape = tokens.values.shape;
  tokens.scales = {{shape[0], shape[1], shape[2]},
                   Dtype::kF32,
                   {spec[0], spec[1], spec[2]},
                   RowMaxima(machine, tokens.values, what)};
  tokens.values.dtype = Dtype::kI8;
  const Arithmetic& arithmetic = machine.Seam<Arithmetic>();
  machine.Local([&](int device) {
    Buffer& local = tokens.values.local[AsIndex(device)];
    Buffer& scale = tokens.scales.local[AsIndex(device)];
    const size_t dim = AsIndex(local.shape[3]);
    Buffer q = Buffer::Zeros(local.shape, Dtype::kI8);
    std::vector<int8_t> row(dim);
    for (size_t r = 0; r < scale.real.size(); ++r) {
      const std::span<const float> x(local.real.data() + r * dim, dim);
      scale.real[r] = arithmetic.quantise(x, scale.real[r], row);
      std::copy(row.begin(), row.end(),
                q.integers.begin() + static_cast<long>(r * dim));
    }
    local = std::move(q);
  });
}

Tokens Prepare(Machine& machine, const KvCache& cache,
               const ShardedTensor& given, std::string_view what) {
  Spec spec = cache.spec();
  spec[1] = {};
  Tokens out;
  out.values = Reshard(machine, given, spec, what);
  if (cache.IsQuantized()) {
    QuantizeTokens(machine, out, what);
    return out;
  }
  out.values.dtype = cache.config.dtype;
  machine.Local([&](int device) {
    Buffer& local = out.values.local[AsIndex(device)];
    local.dtype = cache.config.dtype;
    RoundAll(cache.config.dtype, local.real);
  });
  return out;
}

// Returns the slot of `position` within the device's shard, or -1 if another
// device has the slot.
int64_t LocalSlot(const SimMesh& mesh, const CacheSeam& seam,
                  const KvCache& cache, int device, int64_t position) {
  const AxisGroup& axes = cache.spec()[1];
  return seam.slot({.position = position,
                    .window = cache.config.window,
                    .slots = cache.key.shape[1],
                    .parts = mesh.Parts(axes),
                    .rank = mesh.Index(device, axes)});
}

// Writes one device's new tokens to `slots`, its shard of one cache tensor.
void Place(const Machine& machine, const KvCache& cache, int device,
           const std::vector<int64_t>& counts, const Buffer& tokens,
           Buffer& slots) {
  const int64_t first =
      LocalStart(machine.mesh(), cache.key.shape, cache.spec(), device)[0];
  const CacheSeam& seam = machine.Seam<CacheSeam>();
  Shape extent = tokens.shape, from(extent.size(), 0), to(extent.size(), 0);
  extent[0] = extent[1] = 1;
  for (int64_t row = 0; row < tokens.shape[0]; ++row) {
    const int64_t b = first + row;
    for (int64_t t = 0; t < counts[AsIndex(b)]; ++t) {
      const int64_t slot = LocalSlot(machine.mesh(), seam, cache, device,
                                     cache.index[AsIndex(b)] + t);
      if (slot < 0) continue;
      from[0] = to[0] = row;
      from[1] = t;
      to[1] = slot;
      CopyBlock(tokens, from, slots, to, extent);
    }
  }
}

void PlacePositions(const Machine& machine, KvCache& cache, int device,
                    const std::vector<int64_t>& counts) {
  Buffer& slots = cache.positions.local[AsIndex(device)];
  const int64_t first =
      LocalStart(machine.mesh(), cache.key.shape, cache.spec(), device)[0];
  const CacheSeam& seam = machine.Seam<CacheSeam>();
  for (int64_t row = 0; row < slots.shape[0]; ++row) {
    const int64_t b = first + row;
    for (int64_t t = 0; t < counts[AsIndex(b)]; ++t) {
      const int64_t position = cache.index[AsIndex(b)] + t;
      const int64_t slot =
          LocalSlot(machine.mesh(), seam, cache, device, position);
      if (slot < 0) continue;
      slots.integers[AsIndex(row * slots.shape[1] + slot)] =
          static_cast<int32_t>(position);
    }
  }
}

}  // namespace

int64_t OwnSlot(const SlotQuery& query) {
  const int64_t length = query.slots / query.parts;
  const int64_t slot =
      query.window > 0 ? query.position % query.slots : query.position;
  return slot / length == query.rank ? slot - query.rank * length : -1;
}

bool AppendTokens(Machine& machine, KvCache& cache, const ShardedTensor& key,
                  const ShardedTensor& value,
                  const std::vector<int64_t>& counts, LayoutError& why) {
  return machine.Seam<CacheSeam>().append(machine, cache, key, value, counts,
                                          why);
}

bool RunAppend(Machine& machine, KvCache& cache, const ShardedTensor& key,
               const ShardedTensor& value, const std::vector<int64_t>& counts,
               LayoutError& why) {
  if (!Fits(cache, key, value, counts, why)) return false;
  const std::vector<int64_t> taken =
      counts.empty()
          ? std::vector<int64_t>(AsIndex(cache.config.batch), key.shape[1])
          : counts;
  const Tokens keys = Prepare(machine, cache, key, "new key");
  const Tokens values = Prepare(machine, cache, value, "new value");
  machine.Local([&](int device) {
    const size_t d = AsIndex(device);
    const auto place = [&](const ShardedTensor& tokens, ShardedTensor& slots) {
      Place(machine, cache, device, taken, tokens.local[d], slots.local[d]);
    };
    place(keys.values, cache.key);
    place(values.values, cache.value);
    if (cache.IsQuantized()) {
      place(keys.scales, cache.key_scale);
      place(values.scales, cache.value_scale);
    }
    if (cache.Rolls()) PlacePositions(machine, cache, device, taken);
  });
  for (int64_t b = 0; b < cache.config.batch; ++b) {
    cache.index[AsIndex(b)] += taken[AsIndex(b)];
  }
  return true;
}

}  // namespace shardc::exec
