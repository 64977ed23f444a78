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
#include "exec/kernels/quantize.h"
#include "exec/machine/agreement.h"
#include "floats/convert.h"
#include "floats/half.h"
#include "source/index.h"

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

}  // namespace shardc::exec
