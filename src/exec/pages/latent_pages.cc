// Implements the pages of a cache for multi-head latent attention (MLA). For
// each token, a page holds a latent of `rank` numbers and a rotated part of
// `rope` numbers. Both are padded to a multiple of 128 elements. A word of 32
// bits holds the same element of several consecutive tokens. For example:
//
//   BF16 (two tokens in a word), rank 512, rope 64: the token at offset 5 of a
//   page is the second half of word 2 in each of its 512 + 128 elements
#include "exec/pages/latent_pages.h"

#include <algorithm>

#include "source/checked.h"
#include "source/index.h"

namespace shardc::exec {
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
