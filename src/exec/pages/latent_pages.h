// Declares the pages of latent rows (multi-head latent attention) that one
// device holds.
#ifndef SHARDC_EXEC_PAGES_LATENT_PAGES_H_
#define SHARDC_EXEC_PAGES_LATENT_PAGES_H_

#include <cstdint>
#include <span>

#include "exec/machine/buffer.h"
#include "exec/pages/page_table.h"

namespace shardc::exec {

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

#endif  // SHARDC_EXEC_PAGES_LATENT_PAGES_H_
