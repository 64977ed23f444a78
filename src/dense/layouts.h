// Orders of a tensor's dimensions, and tokens that are packed.
#ifndef SHARDC_DENSE_LAYOUTS_H_
#define SHARDC_DENSE_LAYOUTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "dense/array.h"
#include "model/layout.h"

namespace shardc::dense {

// [B, L, N, D] and back. From kThd gives [1, all tokens, N, D].
Array ToBthd(Array x, Layout layout);
Array FromBthd(const Array& x, Layout layout);

// Positions of packed tokens, which segments divide into sequences: a key's
// is its number among its segment's keys, and a segment's last query is at its
// last key. Tokens of no segment (a negative id) are at -1.
struct Packed {
  std::vector<int64_t> queries, keys;
};
Packed PackedPositions(std::span<const int64_t> query_segments,
                       std::span<const int64_t> key_segments);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_LAYOUTS_H_
