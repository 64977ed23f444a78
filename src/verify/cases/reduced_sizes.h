// The smallest sizes that keep what matters of the real ones.
//
// Per dimension the smallest size with the real size's predicate vector (one
// exists: the real size qualifies). Index maps are floor and modulo of (rank,
// local index) with coefficients H_loc, K_loc, G and L_loc; the predicates fix
// which of them nest and which straddle and keep local ranges from
// degenerating, so that a map that is wrong in full is wrong in small.
//
// Heads, least H then K: axes divide H and K alike; K = 1; G = 1; H_loc = 1;
// K_loc = 1; H_loc mod G = 0; G mod H_loc = 0; K_loc | H_loc; H_loc > K_loc;
// H_loc = G, for every pair of splits. 32/8 over tp 8 becomes 16/8, 28/4 over
// 4 becomes 8/4, 32/8 over 16 with whole key heads 32/4.
//
// What small sizes cannot show: overflow of int32 or float16, growth of
// errors, lane and block sizes, a fault at one far index. --full is for those.
#ifndef SHARDC_VERIFY_CASES_REDUCED_SIZES_H_
#define SHARDC_VERIFY_CASES_REDUCED_SIZES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "verify/cases/case.h"

namespace shardc::verify {

// Into how many parts each dimension is cut, in any mode and by any tensor.
struct Splits {
  std::vector<int64_t> batch;
  std::vector<int64_t> length;
  std::vector<std::pair<int64_t, int64_t>> heads;  // query's, key's
  std::vector<int64_t> dim;
};

// Least (H, K) with the real pair's predicates.
std::pair<int64_t, int64_t> ReducedHeads(
    int64_t heads, int64_t key_heads,
    const std::vector<std::pair<int64_t, int64_t>>& splits);
// Least length: the same divisibility by n and by 2n, min(L/n, 4) alike, and
// at least min(real, 8).
int64_t ReducedLength(int64_t length, const std::vector<int64_t>& splits);
// Two rows a shard where there are as many.
int64_t ReducedBatch(int64_t batch, const std::vector<int64_t>& splits);
// 16 elements a part.
int64_t ReducedDim(int64_t dim, const std::vector<int64_t>& splits);

Sizes ReducedSizes(const Sizes& real, const Splits& splits);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_REDUCED_SIZES_H_
