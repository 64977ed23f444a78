// Computes where a page stores the key or value of a token and head. A page has
// one of three formats. If the heads are sharded, each key must be on the
// device of its value, and a word of 32 bits must not be split. The formats are
// shown below with the order of the keys (K0, K1) and values (V0, V1) of two
// heads:
//
//   interleaved  [page, 2 * K, D]         K0 V0 K1 V1
//   separate     [page, K, D] twice       K0 K1 and V0 V1
//   packed       [page, 2 * K / p, p, D]  F16 has p = 2: (K0 V0) (K1 V1)
#include "exec/pages/page_pool.h"

#include <algorithm>
#include <string>
#include <utility>

#include "exec/kernels/quantize.h"
#include "exec/machine/agreement.h"
#include "floats/half.h"
#include "source/checked.h"
#include "source/index.h"

namespace shardc::exec {
namespace {

constexpr int64_t kLanes = 128;
constexpr int64_t kHalfLanes = 64;

int64_t Packing(Dtype dtype) { return 32 / DtypeBits(dtype); }

// Returns true if the keys and values of a head share one row of 128 elements.
bool SharesRow(const PoolConfig& config) {
  return config.format == PageFormat::kPacked && config.head_dim == kHalfLanes;
}

Shape PoolShape(const PoolConfig& c) {
  if (c.format == PageFormat::kInterleaved) {
    return {c.pages, c.page_size, 2 * c.key_heads, c.head_dim};
  }
  if (c.format == PageFormat::kSeparate) {
    return {c.pages, c.page_size, c.key_heads, c.head_dim};
  }
  const int64_t p = Packing(c.dtype);
  const int64_t heads = SharesRow(c) ? c.key_heads : 2 * c.key_heads;
  return {c.pages, c.page_size, CeilDiv(heads, p), p,
          CeilDiv(c.head_dim, kLanes) * kLanes};
}

// Returns an error unless each device's slice of the pages has complete heads:
// their keys, their values, and all heads that the device's queries read.
std::optional<LayoutError> CheckHeads(const SimMesh& mesh,
                                      const PoolConfig& c) {
  const int64_t n = mesh.Parts(c.head_axes);
  LayoutError why;
  if (!c.head_axes.empty()) why.axis = c.head_axes.front();
  why.help = "replicate the pages' heads over " + GroupText(c.head_axes);
  if (c.key_heads % n != 0) {
    why.message = std::to_string(c.key_heads) +
                  " key heads do not divide into " + std::to_string(n) +
                  " parts: a device would hold keys without their values";
    return why;
  }
  if (c.format != PageFormat::kPacked || n == 1) return std::nullopt;
  const int64_t words = PoolShape(c)[2], p = Packing(c.dtype);
  const int64_t per_head = SharesRow(c) ? 1 : 2;
  if (words % n != 0 || words / n * p != c.key_heads / n * per_head) {
    why.message = std::to_string(c.key_heads) + " key heads in " +
                  std::to_string(words) + " words of " + std::to_string(p) +
                  " do not divide into " + std::to_string(n) +
                  " parts: page slices would drift off query slices";
    return why;
  }
  return std::nullopt;
}

// Returns the row-major offset of a token's first key or value element.
size_t Offset(const PoolConfig& c, const Buffer& local, int64_t page,
              int64_t offset, int64_t head, bool values) {
  const int64_t row = page * c.page_size + offset;
  const Shape& s = local.shape;
  if (c.format == PageFormat::kSeparate) {
    return AsIndex((row * s[2] + head) * s[3]);
  }
  const int64_t combined = 2 * head + (values ? 1 : 0);
  if (c.format == PageFormat::kInterleaved) {
    return AsIndex((row * s[2] + combined) * s[3]);
  }
  const int64_t words = s[2] * s[3];
  if (SharesRow(c)) {
    return AsIndex((row * words + head) * s[4] + (values ? kHalfLanes : 0));
  }
  return AsIndex((row * words + combined) * s[4]);
}

}  // namespace

std::optional<PagePool> MakePool(const SimMesh& mesh, const PoolConfig& config,
                                 float fill, LayoutError& why) {
  if (!IsRealDtype(config.dtype) && config.dtype != Dtype::kI8) {
    why.message = "pages cannot hold " + std::string(DtypeName(config.dtype));
    return std::nullopt;
  }
  if (auto wrong = CheckHeads(mesh, config)) {
    why = *wrong;
    return std::nullopt;
  }
  const Shape shape = PoolShape(config);
  Spec spec{config.page_axes, {}, config.head_axes};
  if (auto wrong = CheckLayout(mesh, shape, spec)) {
    why = *wrong;
    why.message = "the pages: " + why.message;
    return std::nullopt;
  }
  PagePool pool;
  pool.config = config;
  // Each device's pool is allocated by itself, because the unsharded pool may
  // be far larger than a shard.
  const Spec full = PadSpec(spec, shape.size());
  Buffer local = Buffer::Zeros(LocalShape(mesh, shape, full), config.dtype);
  std::fill(local.real.begin(), local.real.end(), RoundTo(config.dtype, fill));
  std::fill(local.integers.begin(), local.integers.end(), 127);
  pool.first = OnEveryDevice(mesh, shape, full, local);
  if (config.format == PageFormat::kSeparate) pool.second = pool.first;
  if (pool.IsQuantized()) {
    const Shape rows{config.pages, config.page_size, config.key_heads};
    Buffer scale = Buffer::Zeros(LocalShape(mesh, rows, spec), Dtype::kF32);
    std::fill(scale.real.begin(), scale.real.end(), fill);
    pool.key_scale = OnEveryDevice(mesh, rows, PadSpec(spec, 3), scale);
    pool.value_scale = pool.key_scale;
  }
  return pool;
}

namespace {

void WriteRow(const Arithmetic& arithmetic, Buffer& local, size_t at,
              float& scale, std::span<const float> from) {
  std::vector<int8_t> q(from.size());
  scale = arithmetic.quantise(from, LargestMagnitude(from), q);
  std::copy(q.begin(), q.end(), local.integers.begin() + static_cast<long>(at));
}

}  // namespace

void WriteToken(PagePool& pool, int device, int64_t page, int64_t offset,
                int64_t head, std::span<const float> key,
                std::span<const float> value) {
  for (const bool values : {false, true}) {
    const bool other = values && pool.config.format == PageFormat::kSeparate;
    Buffer& local = (other ? pool.second : pool.first).local[AsIndex(device)];
    const std::span<const float> from = values ? value : key;
    const size_t at = Offset(pool.config, local, page, offset, head, values);
    if (pool.IsQuantized()) {
      Buffer& scale =
          (values ? pool.value_scale : pool.key_scale).local[AsIndex(device)];
      const int64_t row = page * pool.config.page_size + offset;
      WriteRow(*pool.arithmetic, local, at,
               scale.real[AsIndex(row * scale.shape[2] + head)], from);
      continue;
    }
    for (size_t d = 0; d < from.size(); ++d) {
      local.real[at + d] = RoundTo(pool.config.dtype, from[d]);
    }
  }
}

void ReadToken(const PagePool& pool, int device, int64_t page, int64_t offset,
               int64_t head, bool values, std::span<float> out) {
  const bool other = values && pool.config.format == PageFormat::kSeparate;
  const Buffer& local =
      (other ? pool.second : pool.first).local[AsIndex(device)];
  const size_t at = Offset(pool.config, local, page, offset, head, values);
  if (!pool.IsQuantized()) {
    std::copy_n(local.real.begin() + static_cast<long>(at), out.size(),
                out.begin());
    return;
  }
  const Buffer& scales =
      (values ? pool.value_scale : pool.key_scale).local[AsIndex(device)];
  const int64_t row = page * pool.config.page_size + offset;
  const float scale = pool.arithmetic->scale(
      scales.real, AsIndex(row * scales.shape[2] + head));
  for (size_t d = 0; d < out.size(); ++d) {
    out[d] = DequantizeInt8(static_cast<int8_t>(local.integers[at + d]), scale);
  }
}

void WriteTokens(Machine& machine, PagePool& pool,
                 std::span<const PageSlot> slots, const ShardedTensor& key,
                 const ShardedTensor& value) {
  const SimMesh& mesh = machine.mesh();
  const int64_t each = pool.config.pages / mesh.Parts(pool.config.page_axes);
  const size_t dim = AsIndex(pool.config.head_dim);
  machine.Local([&](int device) {
    const int64_t first = mesh.Index(device, pool.config.page_axes) * each;
    const Buffer& k = key.local[AsIndex(device)];
    const Buffer& v = value.local[AsIndex(device)];
    const int64_t heads = k.shape[1];
    for (size_t i = 0; i < slots.size(); ++i) {
      const int64_t page = slots[i].page - first;
      if (page < 0 || page >= each) continue;
      for (int64_t h = 0; h < heads; ++h) {
        const size_t at = (i * AsIndex(heads) + AsIndex(h)) * dim;
        WriteToken(pool, device, page, slots[i].offset, h,
                   {k.real.data() + at, dim}, {v.real.data() + at, dim});
      }
    }
  });
}

void CopyPages(Machine& machine, PagePool& pool,
               std::span<const PageCopy> copies) {
  machine.Seam<PageSeam>().copy(machine, pool, copies);
}

void RunCopies(Machine& machine, PagePool& pool,
               std::span<const PageCopy> copies) {
  const SimMesh& mesh = machine.mesh();
  const int64_t each = pool.config.pages / mesh.Parts(pool.config.page_axes);
  machine.Local([&](int device) {
    const int64_t first = mesh.Index(device, pool.config.page_axes) * each;
    for (const PageCopy& copy : copies) {
      const int64_t from = copy.from - first, to = copy.to - first;
      if (from < 0 || from >= each || to < 0 || to >= each) continue;
      for (ShardedTensor* tensor :
           {&pool.first, &pool.second, &pool.key_scale, &pool.value_scale}) {
        if (tensor->local.empty()) continue;
        Buffer& local = tensor->local[AsIndex(device)];
        const int64_t size = local.Elements() / each;
        const auto copy_page = [&](auto& all) {
          if (all.empty()) return;
          std::copy_n(all.begin() + from * size, size, all.begin() + to * size);
        };
        copy_page(local.real);
        copy_page(local.integers);
      }
    }
  });
}

}  // namespace shardc::exec
