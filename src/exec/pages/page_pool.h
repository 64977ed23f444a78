// Room: exec/pages. The paged KV cache: pools of pages, page tables and
// programs over them.
// Includes: source, floats, exec/kernels, exec/machine, exec/attention.
//
// Pages of keys and values on the devices, in the layouts of the kernels that
// read them.
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

// P pages of ps tokens, K key heads of D dims.
enum class PageFormat : uint8_t {
  kInterleaved,  // [P, ps, 2K, D]: head k's keys at 2k, its values at 2k + 1
  kSeparate,     // two pools [P, ps, K, D]
  // [P, ps, g, p, pad128(D)]: 32-bit words of p = 32/bits elements; combined
  // head c, which is 2k for the keys and 2k + 1 for the values of head k, is at
  // (c / p, c mod p); g = ceil(2K/p). With D = 64 a row holds the keys and then
  // the values of one head, g = ceil(K/p).
  kPacked,
};

struct PoolConfig {
  PageFormat format = PageFormat::kSeparate;
  int64_t pages = 1;
  int64_t page_size = 1;
  int64_t key_heads = 1;
  int64_t head_dim = 1;
  Dtype dtype = Dtype::kF32;  // F32, BF16, F16, or I8 with F32 scales
  AxisGroup page_axes;        // pages are split over these
  AxisGroup head_axes;        // key heads over these
};

struct PagePool {
  PoolConfig config;
  ShardedTensor first;   // by format; keys where they are separate
  ShardedTensor second;  // values where they are separate
  // I8 only: F32 [P, ps, K], the largest |x| of a token's head; sharded as the
  // pages are.
  ShardedTensor key_scale, value_scale;
  const Arithmetic* arithmetic = &kRightArithmetic;  // of int8 rows

  bool IsQuantized() const { return config.dtype == Dtype::kI8; }
};

// Fills every element with `fill`: tests use a large one, so that reading a
// free page changes the result. Returns nullopt if the layout would separate a
// head's keys from its values or its queries.
std::optional<PagePool> MakePool(const SimMesh& mesh, const PoolConfig& config,
                                 float fill, LayoutError& why);

// Writes one token of one head on one device; `page` and `head` are numbered
// from the device's first ones. Key and value are [D], rounded to the pool's
// dtype or quantised; a row of zeros stays zeros.
void WriteToken(PagePool& pool, int device, int64_t page, int64_t offset,
                int64_t head, std::span<const float> key,
                std::span<const float> value);
// Reads a token's values or keys, [D], into `out`.
void ReadToken(const PagePool& pool, int device, int64_t page, int64_t offset,
               int64_t head, bool values, std::span<float> out);

// Writes new tokens to their slots, on the devices that own their pages:
// slots[i] for token i, key and value [N, K, D] sharded over `head_axes`.
void WriteTokens(Machine& machine, PagePool& pool,
                 std::span<const PageSlot> slots, const ShardedTensor& key,
                 const ShardedTensor& value);
// Makes the copies that PageTable::Grow requested.
void CopyPages(Machine& machine, PagePool& pool,
               std::span<const PageCopy> copies);
// CopyPages without the machine's PageSeam.
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
