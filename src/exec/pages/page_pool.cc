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

#include "exec/kernels/arithmetic.h"
#include "floats/convert.h"
#include "source/size.h"
#include "source/wording.h"

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

// Assigns pages to the rows (requests) of a batch. Free pages form one stack
// for each shard. Every page has a count of the rows that use it. Before a row
// writes to a page that other rows use too, the row gets its own copy of the
// page. Only the last page of a row can be partly filled, so only that page is
// ever copied.
//
// For example, pages have 4 tokens, and page 0 is reserved. Row 0 grows by 6
// tokens and gets pages 1 and 2. Row 1 shares these pages and then grows by 1
// token. Page 2 is therefore copied to page 3, and row 1 has pages 1 and 3.

std::optional<PageTable> PageTable::Make(const PageConfig& config,
                                         LayoutError& why) {
  const int64_t reserved = config.reserve_first ? 1 : 0;
  if (config.page_size < 1 || config.rows < 1 || config.pages_per_row < 1 ||
      config.shards < 1 || config.pages < 1) {
    why.message = "a paged cache needs pages, rows and a page size above 0";
    return std::nullopt;
  }
  if (config.pages % config.shards != 0 || config.rows % config.shards != 0) {
    why.message = Counted(config.pages, "page") + " and " +
                  Counted(config.rows, "row") + " do not divide into " +
                  Counted(config.shards, "shard");
    why.help = "round both up to a multiple of the shards";
    return std::nullopt;
  }
  if (config.pages / config.shards <= reserved) {
    why.message = Counted(config.pages / config.shards, "page") +
                  " a shard leaves none to give out";
    return std::nullopt;
  }
  return PageTable(config);
}

PageTable::PageTable(const PageConfig& config)
    : config_(config),
      pages_(AsIndex(config.rows)),
      lengths_(AsIndex(config.rows), 0),
      uses_(AsIndex(config.pages), 0),
      free_(AsIndex(config.shards)) {
  const int64_t each = config.pages / config.shards;
  for (int64_t shard = 0; shard < config.shards; ++shard) {
    for (int64_t i = each - 1; i >= (config.reserve_first ? 1 : 0); --i) {
      free_[AsIndex(shard)].push_back(shard * each + i);
    }
  }
}

int64_t PageTable::FreePages(int64_t shard) const {
  return static_cast<int64_t>(free_[AsIndex(shard)].size());
}

int64_t PageTable::Take(int64_t shard) {
  const int64_t page = free_[AsIndex(shard)].back();
  free_[AsIndex(shard)].pop_back();
  uses_[AsIndex(page)] = 1;
  return page;
}

bool PageTable::Grow(int64_t row, int64_t count, std::vector<PageCopy>& copies,
                     LayoutError& why) {
  if (row < 0 || row >= config_.rows || count < 0) {
    why.message = "row " + std::to_string(row) + " is not among the " +
                  Counted(config_.rows, "row");
    return false;
  }
  std::vector<int64_t>& pages = pages_[AsIndex(row)];
  int64_t& length = lengths_[AsIndex(row)];
  const int64_t shard = ShardOf(row);
  const int64_t needed = CeilDiv(length + count, config_.page_size);
  const auto held = static_cast<int64_t>(pages.size());
  if (needed > config_.pages_per_row) {
    why.message = "row " + std::to_string(row) + " needs " +
                  Counted(needed, "page") + " for " +
                  Counted(length + count, "token") + ", its table has " +
                  std::to_string(config_.pages_per_row);
    why.help = "widen the table or use larger pages";
    return false;
  }
  // If other rows share the partly filled last page, it is copied first.
  const bool copy_last = count > 0 && length % config_.page_size != 0 &&
                         uses_[AsIndex(pages.back())] > 1 &&
                         config_.copy_shared;
  const int64_t more = needed - held + (copy_last ? 1 : 0);
  if (more > FreePages(shard)) {
    why.message = "row " + std::to_string(row) + " needs " +
                  Counted(more, "more page", "more pages") + ", shard " +
                  std::to_string(shard) + " has " +
                  Counted(FreePages(shard), "free one");
    why.help = "release rows or give the pool more pages";
    return false;
  }
  if (copy_last) {
    const int64_t shared = pages.back();
    pages.back() = Take(shard);
    --uses_[AsIndex(shared)];
    copies.push_back({shared, pages.back()});
  }
  while (static_cast<int64_t>(pages.size()) < needed) {
    pages.push_back(Take(shard));
  }
  length += count;
  return true;
}

bool PageTable::Share(int64_t from, int64_t to, LayoutError& why) {
  const bool known = from >= 0 && from < config_.rows && to >= 0 &&
                     to < config_.rows && from != to;
  if (!known || lengths_[AsIndex(to)] != 0 || ShardOf(from) != ShardOf(to)) {
    why.message = "row " + std::to_string(to) + " cannot share the pages of " +
                  "row " + std::to_string(from);
    why.help = "only an empty row of the same shard can";
    return false;
  }
  pages_[AsIndex(to)] = pages_[AsIndex(from)];
  lengths_[AsIndex(to)] = lengths_[AsIndex(from)];
  for (int64_t page : pages_[AsIndex(to)]) ++uses_[AsIndex(page)];
  return true;
}

void PageTable::Release(int64_t row) {
  for (int64_t page : pages_[AsIndex(row)]) {
    if (--uses_[AsIndex(page)] == 0)
      free_[AsIndex(ShardOf(row))].push_back(page);
  }
  pages_[AsIndex(row)].clear();
  lengths_[AsIndex(row)] = 0;
}

PageSlot PageTable::SlotOf(int64_t row, int64_t position) const {
  return {pages_[AsIndex(row)][AsIndex(position / config_.page_size)],
          position % config_.page_size};
}

Buffer PageTable::Table() const {
  Buffer out =
      Buffer::Zeros({config_.rows, config_.pages_per_row}, Dtype::kI32);
  const int64_t each = config_.pages / config_.shards;
  for (int64_t row = 0; row < config_.rows; ++row) {
    const auto& pages = pages_[AsIndex(row)];
    for (int64_t i = 0; i < config_.pages_per_row; ++i) {
      const bool held = i < static_cast<int64_t>(pages.size());
      out.integers[AsIndex(row * config_.pages_per_row + i)] =
          static_cast<int32_t>(held ? pages[AsIndex(i)] : ShardOf(row) * each);
    }
  }
  return out;
}

void PageTable::ShuffleFree(Random random) {
  uint64_t draw = 0;
  for (std::vector<int64_t>& pages : free_) {
    for (size_t i = pages.size(); i > 1; --i) {
      std::swap(pages[i - 1], pages[random.Below(draw++, i)]);
    }
  }
}

// Implements the pages of a cache for multi-head latent attention (MLA). For
// each token, a page holds a latent of `rank` numbers and a rotated part of
// `rope` numbers. Both are padded to a multiple of 128 elements. A word of 32
// bits holds the same element of several consecutive tokens. For example:
//
//   BF16 (two tokens in a word), rank 512, rope 64: the token at offset 5 of a
//   page is the second half of word 2 in each of its 512 + 128 elements

namespace {

int64_t Padded(int64_t lanes) { return CeilDiv(lanes, 128) * 128; }

}  // namespace

LatentPages::LatentPages(const PageTable& table, int64_t shard, int64_t rank,
                         int64_t rope, Dtype dtype)
    : table_(&table),
      first_(shard * (table.config().pages / table.config().shards)),
      rank_(rank),
      rope_(rope),
      word_(32 / DtypeBits(dtype)) {
  const PageConfig& c = table.config();
  data_ = Buffer::Zeros({c.pages / c.shards, CeilDiv(c.page_size, word_), word_,
                         Padded(rank) + Padded(rope)},
                        dtype);
  std::fill(data_.real.begin(), data_.real.end(), kFreePage);
}

std::span<float> LatentPages::Latent(int64_t row, int64_t position) {
  return {data_.real.data() + Offset(row, position), AsIndex(rank_)};
}

std::span<float> LatentPages::Rope(int64_t row, int64_t position) {
  return {data_.real.data() + Offset(row, position) + Padded(rank_),
          AsIndex(rope_)};
}

int64_t LatentPages::Offset(int64_t row, int64_t position) const {
  const PageSlot slot = table_->SlotOf(row, position);
  const Shape& s = data_.shape;
  return (((slot.page - first_) * s[1] + slot.offset / word_) * s[2] +
          slot.offset % word_) *
         s[3];
}

}  // namespace shardc::exec
