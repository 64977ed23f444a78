// The smallest sizes that keep the relevant properties of the real ones.
//
// For each dimension this is the smallest size with the real size's predicates
// (one exists: the real size qualifies). Index maps are floor and modulo of
// (rank, local index) with coefficients H_loc, K_loc, G and L_loc. The
// predicates determine which of them nest and which straddle, and keep local
// ranges from degenerating, so a map that is wrong at the real size is wrong at
// the reduced one.
//
// Heads, smallest H then K: axes divide H and K in the same way; K = 1; G = 1;
// H_loc = 1; K_loc = 1; H_loc mod G = 0; G mod H_loc = 0; K_loc | H_loc; H_loc
// > K_loc; H_loc = G, for every pair of shardings. 32/8 over tp 8 becomes 16/8,
// 28/4 over 4 becomes 8/4, 32/8 over 16 with replicated key heads 32/4. Where n
// parts of a length are exchanged for heads, also: n divides H_loc; n divides
// K_loc, or K_loc divides n. Where pages hold words of p heads: whether words
// split.
//
// Batch and lengths together, smallest batch first: packed tokens are their
// product, which axes may divide even where they do not divide its factors. 3
// rows of 4 over dp 2 do not become 3 rows of 3.
//
// Reduced sizes cannot show: overflow of int32 or float16, growth of errors,
// lane and block sizes, a fault at one high index. --full tests these.
#ifndef SHARDC_VERIFY_CASES_REDUCED_SIZES_H_
#define SHARDC_VERIFY_CASES_REDUCED_SIZES_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "verify/cases/case.h"

namespace shardc::verify {

// The numbers of shards of each dimension, in any mode and of any tensor.
struct Splits {
  std::vector<int64_t> batch;
  std::vector<int64_t> length;
  std::vector<std::pair<int64_t, int64_t>> heads;  // query's, key's
  std::vector<int64_t> dim;
  std::vector<int64_t> tokens = {};  // of batch x length, queries and keys
  // An exchange of lengths for heads: the query heads in `heads` shards and the
  // key heads in `keys` shards are split into `parts` more.
  struct Exchange {
    int64_t heads = 1, keys = 1, parts = 1;
    bool operator==(const Exchange&) const = default;
  };
  std::vector<Exchange> exchanges = {};
  // Pages of words: shards of the heads, and heads a word.
  std::vector<std::pair<int64_t, int64_t>> words = {};
};

// Returns the smallest (H, K) with the real pair's predicates.
std::pair<int64_t, int64_t> ReducedHeads(int64_t heads, int64_t key_heads,
                                         const Splits& splits);

// Batch: two rows a shard where there are as many. A query that is shorter than
// its keys stays shorter. Sizes of heads: 16 elements a shard; 64 stays 64
// where pages hold words, as keys and values share a row then.
Sizes ReducedSizes(const Sizes& real, const Splits& splits);
// The smallest sizes that `used` splits as `given` splits the real ones, where
// both list the same axes on two meshes; nothing if there are none.
std::optional<Sizes> ReducedSizes(const Sizes& real, const Splits& given,
                                  const Splits& used);

// Returns the smallest length from `least` on with the same divisibility by
// each of `splits` as `like`.
int64_t LengthLike(int64_t like, int64_t least,
                   const std::vector<int64_t>& splits);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_REDUCED_SIZES_H_
