// Pages through the life of several requests that share a prefix: whatever
// one of them writes, the others still read their own tokens.
#ifndef SHARDC_VERIFY_PAGED_LIFE_H_
#define SHARDC_VERIFY_PAGED_LIFE_H_

#include <cstdint>

#include "exec/page_pool.h"
#include "verify/lifetime.h"

namespace shardc::verify {

struct PagedLife {
  Mesh mesh;
  exec::PageFormat format = exec::PageFormat::kSeparate;
  int64_t requests = 4;
  int64_t key_heads = 2;
  int64_t head_dim = 8;
  int64_t page_size = 4;
  int64_t pages_per_request = 6;  // at most
  int64_t steps = 40;             // random ones: grow, share, release
  Dtype dtype = Dtype::kF32;
  AxisGroup page_axes, head_axes;
  uint64_t seed = 1;
};

// Where heads cannot be split in the pages they are whole on every device, as
// in the operations, and a remark says so. After each step every token of every
// request is read back and compared bit by bit with what was written.
LifetimeResult RunPagedLife(const PagedLife& life, const RunOptions& options);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_PAGED_LIFE_H_
