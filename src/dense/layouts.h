// Converts between dimension orders, and computes positions of packed tokens.
#ifndef SHARDC_DENSE_LAYOUTS_H_
#define SHARDC_DENSE_LAYOUTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dense/array.h"
#include "model/layout.h"

namespace shardc::dense {

// Converts an array from `layout` to [B, T, N, D]. The packed tokens of kThd
// become one row: [1, all tokens, N, D].
Array ToBthd(Array x, Layout layout);

// Positions of packed tokens, which segment ids divide into sequences. A key's
// position is its number among its segment's keys. The last query of a segment
// is at the position of its last key. Tokens of no segment (a negative id) have
// position -1.
struct Packed {
  std::vector<int64_t> queries, keys;
};
Packed PackedPositions(std::span<const int64_t> query_segments,
                       std::span<const int64_t> key_segments);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_LAYOUTS_H_
