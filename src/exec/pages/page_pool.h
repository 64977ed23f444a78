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

// P pages of ps tokens, K key heads of D.
enum class PageFormat : uint8_t {
  kInterleaved,  // [P, ps, 2K, D]: head k's keys at 2k, its values at 2k + 1
  kSeparate,     // two pools [P, ps, K, D]
  // [P, ps, g, p, pad128(D)]: 32-bit words of p = 32/bits elements; combined
  // head 2k or 2k + 1 is at (c / p, c mod p), g = ceil(2K/p). With D = 64 a
  // row holds the keys and then the values of one head, g = ceil(K/p).
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
  // I8 only: F32 [P, ps, K], the largest |x| of a token's head; split as the
  // pages are.
  ShardedTensor key_scale, value_scale;
  const Arithmetic* arithmetic = &kRightArithmetic;  // of int8 rows

  bool IsQuantized() const { return config.dtype == Dtype::kI8; }
};

// Every element is `fill`: tests use a large one, so that a free page that
// is read shows. Nothing where the layout would part a head's keys from its
// values or from its queries.
std::optional<PagePool> MakePool(const SimMesh& mesh, const PoolConfig& config,
                                 float fill, Complaint& why);

// One token of one head on one device; page and head count from the device's
// first. [D] each, rounded to the pool's dtype or quantised; a row of zeros
// stays one.
void WriteToken(PagePool& pool, int device, int64_t page, int64_t offset,
                int64_t head, std::span<const float> key,
                std::span<const float> value);
// What lies there, of `values` or of keys; [D] into `out`.
void ReadToken(const PagePool& pool, int device, int64_t page, int64_t offset,
               int64_t head, bool values, std::span<float> out);

// New tokens into their slots, on the devices that own their pages:
// slots[i] of token i, key and value [N, K, D] split over `head_axes`.
void WriteTokens(Machine& machine, PagePool& pool,
                 std::span<const PageSlot> slots, const ShardedTensor& key,
                 const ShardedTensor& value);
// Makes the copies that PageTable::Grow asked for.
void CopyPages(Machine& machine, PagePool& pool,
               std::span<const PageCopy> copies);
// As they stand; CopyPages goes through the machine's PageSeam.
void RunCopies(Machine& machine, PagePool& pool,
               std::span<const PageCopy> copies);
struct PageSeam {
  // A page table that is about to be made.
  std::function<void(PageConfig&)> config;
  std::function<void(Machine&, PagePool&, std::span<const PageCopy>)> copy =
      RunCopies;
};

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_PAGES_PAGE_POOL_H_
