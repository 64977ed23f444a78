// Implements the KV cache. The cache has a fixed number of slots for each row
// of the batch, and each row has its own length. The parts of the cache are
// keys, values, scales and positions. All of them are sharded by the spec of
// the keys and are resharded together. For example, 4 rows are sharded over dp
// of size 2. An insert into row 2 then writes the first row of the shards on
// the devices at dp=1.
//
// Attention reads a view of the cache in the dtype in which it computes. If
// that dtype can represent every value of the cache's dtype, no buffer is
// copied: LendCache moves the buffers to the view, and ReturnCache moves them
// back.
#include "exec/cache/kv_cache.h"

#include <algorithm>
#include <string>
#include <utility>

#include "exec/kernels/arithmetic.h"
#include "floats/convert.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

// Return the specs of scales [B, S, K] and of positions [B, S]. `spec` is the
// spec of the keys [B, S, K, D].
Spec ScaleSpec(const Spec& spec) { return {spec[0], spec[1], spec[2]}; }
Spec PositionSpec(const Spec& spec) { return {spec[0], spec[1]}; }

LayoutError MakeError(std::string message, std::string help = {}) {
  LayoutError why;
  why.message = std::move(message);
  why.help = std::move(help);
  return why;
}

// A tensor of the cache that has a batch and a length dimension, and its spec.
struct CacheTensor {
  ShardedTensor* tensor;
  Spec spec;
  const char* name;
};
// Returns the tensors of the cache, each with the spec that it must have if
// `spec` is the spec of the keys. For example, scales have no entry for D.
std::vector<CacheTensor> PartsOf(KvCache& cache, const Spec& spec) {
  std::vector<CacheTensor> out{{&cache.key, spec, "cached key"},
                               {&cache.value, spec, "cached value"}};
  if (cache.IsQuantized()) {
    out.push_back({&cache.key_scale, ScaleSpec(spec), "cached key scale"});
    out.push_back({&cache.value_scale, ScaleSpec(spec), "cached value scale"});
  }
  if (cache.Rolls()) {
    out.push_back({&cache.positions, PositionSpec(spec), "cached positions"});
  }
  return out;
}

bool SameRows(const CacheConfig& a, const CacheConfig& b) {
  return a.max_length == b.max_length && a.key_heads == b.key_heads &&
         a.head_dim == b.head_dim && a.dtype == b.dtype && a.window == b.window;
}

// Copies row 0 of `from` to row `row` of `into`, both on one device.
void CopyRow(const Buffer& from, Buffer& into, int64_t row) {
  Shape extent = into.shape, at(into.shape.size(), 0);
  extent[0] = 1;
  at[0] = row;
  CopyBlock(from, Shape(extent.size(), 0), into, at, extent);
}

// Returns the float values of `q`, one device's int8 shard. `scale` [B, S, K]
// holds the scales of the same device.
Buffer Dequantized(const Machine& machine, const Buffer& q, const Buffer& scale,
                   Dtype dtype) {
  Buffer out = Buffer::Zeros(q.shape, dtype);
  const Arithmetic& arithmetic = machine.Seam<Arithmetic>();
  const int64_t dim = q.shape[3], rows = scale.Elements();
  for (int64_t row = 0; row < rows; ++row) {
    const float s = arithmetic.scale(scale.real, AsIndex(row));
    for (int64_t d = 0; d < dim; ++d) {
      const int64_t i = row * dim + d;
      out.real[AsIndex(i)] = RoundTo(
          dtype,
          DequantizeInt8(static_cast<int8_t>(q.integers[AsIndex(i)]), s));
    }
  }
  return out;
}

ShardedTensor Viewed(const Machine& machine, const ShardedTensor& tensor,
                     const ShardedTensor& scale, Dtype dtype) {
  ShardedTensor out{tensor.shape, dtype, tensor.spec, {}};
  out.local.resize(tensor.local.size());
  machine.Local([&](int device) {
    const Buffer& local = tensor.local[AsIndex(device)];
    Buffer& to = out.local[AsIndex(device)];
    if (tensor.dtype == Dtype::kI8) {
      to = Dequantized(machine, local, scale.local[AsIndex(device)], dtype);
      return;
    }
    to = local;
    to.dtype = dtype;
    RoundAll(dtype, to.real);
  });
  ShapeElsewhere(machine.mesh(), out);
  return out;
}

// Returns true if every value of `inner` is also a value of `outer`, so that
// converting to `outer` loses no bits.
bool Holds(Dtype outer, Dtype inner) {
  return inner == outer || (outer == Dtype::kF32 && IsRealDtype(inner));
}

void Relabel(ShardedTensor& tensor, Dtype dtype) {
  tensor.dtype = dtype;
  for (Buffer& local : tensor.local) local.dtype = dtype;
}

// Returns a view that has positions, lengths and starts, but no keys and
// values.
CacheView ViewPlaces(const Machine& machine, const KvCache& cache) {
  CacheView view;
  view.positions = cache.positions;
  view.lengths = cache.index;
  view.starts = cache.start;
  const CacheSeam& seam = machine.Seam<CacheSeam>();
  if (seam.view) seam.view(machine, cache, view);
  return view;
}

}  // namespace

std::optional<KvCache> MakeCache(const SimMesh& mesh, const CacheConfig& config,
                                 const Spec& spec, LayoutError& why) {
  const Shape shape{config.batch, config.max_length, config.key_heads,
                    config.head_dim};
  if (*std::min_element(shape.begin(), shape.end()) < 1) {
    why = MakeError("a cache of " + ShapeText(shape) + " has no room");
    return std::nullopt;
  }
  if (config.window < 0 || config.window > config.max_length) {
    why = MakeError("a window of " + std::to_string(config.window) +
                    " does not fit into " + std::to_string(config.max_length) +
                    " slots");
    return std::nullopt;
  }
  if (!IsRealDtype(config.dtype) && config.dtype != Dtype::kI8) {
    why =
        MakeError("a cache cannot hold " + std::string(DtypeName(config.dtype)),
                  "use F32, F16, BF16 or I8");
    return std::nullopt;
  }
  if (auto wrong = CheckLayout(mesh, shape, spec)) {
    why = *wrong;
    why.message = "the cache: " + why.message;
    return std::nullopt;
  }
  KvCache cache;
  cache.config = config;
  const Spec full = PadSpec(spec, 4);
  const auto zeros = [&](const Shape& of, Dtype dtype, const Spec& split) {
    // Each device's shard is allocated by itself, because the unsharded tensor
    // may be far larger than any shard.
    return OnEveryDevice(mesh, of, split,
                         Buffer::Zeros(LocalShape(mesh, of, split), dtype));
  };
  cache.key = cache.value = zeros(shape, config.dtype, full);
  if (cache.IsQuantized()) {
    cache.key_scale = cache.value_scale =
        zeros({shape[0], shape[1], shape[2]}, Dtype::kF32, ScaleSpec(full));
  }
  if (cache.Rolls()) {
    cache.positions =
        zeros({shape[0], shape[1]}, Dtype::kI32, PositionSpec(full));
    for (Buffer& local : cache.positions.local) {
      std::fill(local.integers.begin(), local.integers.end(), -1);
    }
  }
  cache.index.assign(AsIndex(config.batch), 0);
  cache.start.assign(AsIndex(config.batch), 0);
  return cache;
}

bool InsertRow(Machine& machine, const KvCache& from, KvCache& into,
               int64_t slot, LayoutError& why) {
  return machine.Seam<CacheSeam>().insert(machine, from, into, slot, why);
}

bool RunInsert(Machine& machine, const KvCache& from, KvCache& into,
               int64_t slot, LayoutError& why) {
  if (slot < 0 || slot >= into.config.batch) {
    why = MakeError("slot " + std::to_string(slot) +
                    " is not among the cache's " +
                    std::to_string(into.config.batch) + " rows");
    return false;
  }
  if (from.config.batch != 1 || !SameRows(from.config, into.config)) {
    why = MakeError(
        "a row of a cache " + ShapeText(from.key.shape) +
            " cannot be inserted into one of " + ShapeText(into.key.shape),
        "prefill one row into a cache of the same length, heads and "
        "dtype");
    return false;
  }
  Spec spec = into.spec();
  spec[0] = {};  // the row is replicated over the batch's axes until it moves
  KvCache row = from;
  if (!MoveCache(machine, row, spec, why)) return false;
  const std::vector<CacheTensor> sources = PartsOf(row, spec);
  const std::vector<CacheTensor> targets = PartsOf(into, into.spec());
  machine.Local([&](int device) {
    const Spec& layout = into.key.spec;
    const int64_t first =
        LocalStart(machine.mesh(), into.key.shape, layout, device)[0];
    const int64_t rows = into.key.local[AsIndex(device)].shape[0];
    if (slot < first || slot >= first + rows) return;
    for (size_t i = 0; i < sources.size(); ++i) {
      CopyRow(sources[i].tensor->local[AsIndex(device)],
              targets[i].tensor->local[AsIndex(device)], slot - first);
    }
  });
  into.index[AsIndex(slot)] = from.index[0];
  into.start[AsIndex(slot)] = from.start[0];
  return true;
}

bool MoveCache(Machine& machine, KvCache& cache, const Spec& spec,
               LayoutError& why) {
  if (auto wrong = CheckLayout(machine.mesh(), cache.key.shape, spec)) {
    why = *wrong;
    why.message = "the cache: " + why.message;
    return false;
  }
  for (const CacheTensor& part : PartsOf(cache, PadSpec(spec, 4))) {
    if (part.tensor->spec == part.spec) continue;
    *part.tensor = Reshard(machine, *part.tensor, part.spec, part.name);
  }
  return true;
}

CacheView ViewCache(const Machine& machine, const KvCache& cache, Dtype dtype) {
  CacheView view = ViewPlaces(machine, cache);
  view.key = Viewed(machine, cache.key, cache.key_scale, dtype);
  view.value = Viewed(machine, cache.value, cache.value_scale, dtype);
  return view;
}

CacheView LendCache(const Machine& machine, KvCache& cache, Dtype dtype) {
  if (!Holds(dtype, cache.config.dtype)) {
    return ViewCache(machine, cache, dtype);
  }
  CacheView view = ViewPlaces(machine, cache);
  view.lent = true;
  view.key = std::move(cache.key);
  view.value = std::move(cache.value);
  Relabel(view.key, dtype);
  Relabel(view.value, dtype);
  return view;
}

void ReturnCache(CacheView view, KvCache& cache) {
  if (!view.lent) return;
  cache.key = std::move(view.key);
  cache.value = std::move(view.value);
  Relabel(cache.key, cache.config.dtype);
  Relabel(cache.value, cache.config.dtype);
}

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
