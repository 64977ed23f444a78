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

#include "exec/kernels/arithmetic.h"
#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "exec/pages/page_table.h"

namespace shardc::exec {

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

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_PAGES_PAGE_POOL_H_
