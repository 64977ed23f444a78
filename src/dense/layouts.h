// Converts arrays between dimension orders, and computes the positions of
// packed tokens.
#ifndef SHARDC_DENSE_LAYOUTS_H_
#define SHARDC_DENSE_LAYOUTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dense/array.h"
#include "model/layout.h"

namespace shardc::dense {

// Converts an array from `layout` to [B, T, N, D]. In the layout kThd, the
// packed tokens become one row: [1, all tokens, N, D].
Array ToBthd(Array x, Layout layout);

// The positions of packed tokens, which segment ids divide into sequences. The
// position of a key is its index among the keys of its segment. The last query
// of a segment has the position of the segment's last key. Tokens without a
// segment (a negative id) have position -1.
struct Packed {
  std::vector<int64_t> queries, keys;
};
Packed PackedPositions(std::span<const int64_t> query_segments,
                       std::span<const int64_t> key_segments);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_LAYOUTS_H_
