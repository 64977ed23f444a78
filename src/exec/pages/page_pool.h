// Directory: exec/pages. The paged KV cache: pools of pages, page tables and
// programs over them.
// Its files include headers of these directories: source, floats, exec/kernels,
// exec/machine, exec/attention.
//
// Declares a pool: all pages of keys and values, on all devices, in the format
// that the kernel reads.
#ifndef SHARDC_EXEC_PAGES_PAGE_POOL_H_
#define SHARDC_EXEC_PAGES_PAGE_POOL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "exec/kernels/arithmetic.h"
#include "exec/machine/buffer.h"
#include "exec/machine/machine.h"
#include "exec/machine/random.h"
#include "exec/machine/sharded.h"

namespace shardc::exec {

// Declares the table of a paged cache, which has the pages of each row
// (request). The host keeps this table, and devices hold the pages.
//
// Position p of a row is in page table[row][p / page_size], at p mod page_size.
// Page ids are global. If P pages and R rows are sharded over n shards, shard r
// owns pages [r P/n, (r + 1) P/n) and rows [r R/n, (r + 1) R/n). A row uses
// only pages of its own shard. Rows may share pages. Before a row writes to a
// shared page, it gets a copy of the page.

// The value of pool entries to which no token has been written. It is large, so
// that a wrong read of such an entry changes the result.
inline constexpr float kFreePage = 1e4f;

struct PageConfig {
  int64_t pages = 1;          // P: number of pages in all shards
  int64_t page_size = 1;      // tokens in a page
  int64_t rows = 1;           // R: requests
  int64_t pages_per_row = 1;  // a row has at most this number of pages
  int64_t shards = 1;         // n: number of shards, which must divide P and R
  // If true, a shared page is copied before it is written. Fault injection sets
  // this to false.
  bool copy_shared = true;
  // If true, no row uses the first page of a shard: unused entries of tables
  // point to it.
  bool reserve_first = true;
};

// A copy of page `from` to page `to` that must be made before a write. Both
// pages belong to the same shard.
struct PageCopy {
  int64_t from = 0, to = 0;
  bool operator==(const PageCopy&) const = default;
};

struct PageSlot {
  int64_t page = 0, offset = 0;
};

class PageTable {
 public:
  // Returns nullopt, and the reason, if a size is 0, if the shards do not
  // divide the pages or the rows, or if a shard has no page besides the
  // reserved one.
  static std::optional<PageTable> Make(const PageConfig& config,
                                       LayoutError& why);

  // Assigns pages for `count` more tokens of a row. Appends to `copies` the
  // copies that must be made before these tokens are written. Returns false,
  // and changes nothing, if the row does not exist, its table is too short, or
  // its shard has too few free pages.
  bool Grow(int64_t row, int64_t count, std::vector<PageCopy>& copies,
            LayoutError& why);
  // Makes the empty row `to` share the pages of row `from`, so that both have
  // the same tokens. The number of rows that use each of these pages increases
  // by one. Returns false if `to` is not an empty row of the same shard.
  bool Share(int64_t from, int64_t to, LayoutError& why);
  // Empties a row. Its pages become free unless other rows use them.
  void Release(int64_t row);

  PageSlot SlotOf(int64_t row, int64_t position) const;
  int64_t ShardOf(int64_t row) const {
    return row / (config_.rows / config_.shards);
  }
  int64_t FreePages(int64_t shard) const;
  bool IsFree(int64_t page) const { return uses_[size_t(page)] == 0; }
  int64_t Uses(int64_t page) const { return uses_[size_t(page)]; }

  const PageConfig& config() const { return config_; }
  const std::vector<int64_t>& lengths() const { return lengths_; }  // [R]
  // Returns the table, I32 [R, pages_per_row]: global page ids, padded with the
  // shard's first page.
  Buffer Table() const;

  // For tests: makes Grow use pages in a random order.
  void ShuffleFree(Random random);

 private:
  explicit PageTable(const PageConfig& config);
  int64_t Take(int64_t shard);

  PageConfig config_;
  // Indexed by row: its pages, in order of positions.
  std::vector<std::vector<int64_t>> pages_;
  std::vector<int64_t> lengths_;
  // Indexed by page: number of rows that use the page.
  std::vector<int64_t> uses_;
  // Indexed by shard: its free pages, as a stack.
  std::vector<std::vector<int64_t>> free_;
};

// How a pool stores tokens: P pages of ps tokens, K key heads of D dims.
enum class PageFormat : uint8_t {
  // [P, ps, 2K, D]: row 2k holds the keys of head k, and row 2k + 1 its values.
  kInterleaved,
  // Keys and values are in two pools [P, ps, K, D].
  kSeparate,
  // [P, ps, g, p, pad128(D)], where p = 32/bits elements form a word of 32
  // bits, and pad128 rounds up to a multiple of 128. Keys and values are
  // numbered together: the keys of head k have number c = 2k and its values c =
  // 2k + 1. Number c is at (c / p, c mod p), so g = ceil(2K/p). With D = 64 a
  // row holds the keys and then the values of one head, and g = ceil(K/p).
  kPacked,
};

struct PoolConfig {
  PageFormat format = PageFormat::kSeparate;
  int64_t pages = 1;
  int64_t page_size = 1;
  int64_t key_heads = 1;
  int64_t head_dim = 1;
  Dtype dtype = Dtype::kF32;  // F32, BF16, F16, or I8 with F32 scales
  AxisGroup page_axes;        // the axes that shard the pages
  AxisGroup head_axes;        // the axes that shard the key heads
};

struct PagePool {
  PoolConfig config;
  // For kSeparate, `first` holds the keys and `second` the values. For other
  // formats, `first` holds both and `second` is unused.
  ShardedTensor first;
  ShardedTensor second;
  // For I8 only: F32 [P, ps, K], the largest |x| of each token and head. Scales
  // are sharded as the pages are.
  ShardedTensor key_scale, value_scale;
  // Has the functions that quantise and dequantise int8 rows.
  const Arithmetic* arithmetic = &kRightArithmetic;

  bool IsQuantized() const { return config.dtype == Dtype::kI8; }
};

// Returns a pool whose elements are all `fill`. With int8, all scales are
// `fill` and all integers are 127. Tests use a large number, so that a wrong
// read of a free page changes the result. Returns nullopt, and the reason, if
// the dtype or the layout is illegal, or if the sharding would separate a
// head's keys from its values or from its queries.
std::optional<PagePool> MakePool(const SimMesh& mesh, const PoolConfig& config,
                                 float fill, LayoutError& why);

// Writes one token of one head on one device. `page` and `head` are counted
// from the device's first page and head. `key` and `value` are [D]; they are
// rounded to the pool's dtype or quantised. A row of zeros stays zeros.
void WriteToken(PagePool& pool, int device, int64_t page, int64_t offset,
                int64_t head, std::span<const float> key,
                std::span<const float> value);
// Reads a token's values or keys, [D], into `out`; int8 is dequantised.
void ReadToken(const PagePool& pool, int device, int64_t page, int64_t offset,
               int64_t head, bool values, std::span<float> out);

// Writes new tokens to the pages of the devices that own them: token i to
// slots[i]. Key and value are [N, K, D], sharded over `head_axes`.
void WriteTokens(Machine& machine, PagePool& pool,
                 std::span<const PageSlot> slots, const ShardedTensor& key,
                 const ShardedTensor& value);
// Copies the pages that are listed in `copies`. PageTable::Grow makes such a
// list.
void CopyPages(Machine& machine, PagePool& pool,
               std::span<const PageCopy> copies);
// Like CopyPages, but without the machine's PageSeam, which tests replace.
void RunCopies(Machine& machine, PagePool& pool,
               std::span<const PageCopy> copies);
struct PageSeam {
  // Changes the configuration of a page table before it is made.
  std::function<void(PageConfig&)> config;
  std::function<void(Machine&, PagePool&, std::span<const PageCopy>)> copy =
      RunCopies;
};

// P pages of ps tokens are [P, ceil(ps/w), w, pad128(r) + pad128(p)], where a
// word of 32 bits holds elements of w tokens. A row has r = `rank` latent
// elements and then p = `rope` rotated elements, each padded to a multiple of
// 128. Free pages hold a large number, so that a wrong read of a free page
// changes the result. The table must outlive this object.
class LatentPages {
 public:
  LatentPages(const PageTable& table, int64_t shard, int64_t rank, int64_t rope,
              Dtype dtype);

  std::span<float> Latent(int64_t row, int64_t position);  // r elements
  std::span<float> Rope(int64_t row, int64_t position);    // p elements

 private:
  int64_t Offset(int64_t row, int64_t position) const;

  const PageTable* table_;
  int64_t first_, rank_, rope_, word_;
  Buffer data_;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_PAGES_PAGE_POOL_H_
