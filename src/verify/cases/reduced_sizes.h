// The smallest sizes that keep the relevant properties of the real sizes.
//
// Predicates describe the properties of a size. The reduced size of a dimension
// is the smallest one for which all predicates have the same values as for the
// real size. It is never larger than the real size.
//
// H is the number of query heads, K the number of key heads and G = H/K. H_loc,
// K_loc and L_loc are the query heads, the key heads and the length on one
// device. An operation computes which element it reads from the rank and the
// local index, by floors and modulos with the coefficients H_loc, K_loc, G and
// L_loc. The predicates decide whether a shard has complete groups of G heads
// or parts of groups. They also prevent shards of one element that the real
// sizes do not have. A map of indices that is wrong at the real sizes is
// therefore wrong at the reduced sizes as well.
//
// For heads, the smallest H and then the smallest K are chosen. Every pair of
// shardings of H and K has these predicates: the axes divide H; they divide K;
// K = 1; G = 1; H_loc = 1; K_loc = 1; H_loc = G; H_loc > K_loc; G divides
// H_loc; H_loc divides G; K_loc divides H_loc. Examples:
//
//   32 query heads and 8 key heads over tp 8    ->  16 and 8
//   28 query heads and 4 key heads over tp 4    ->  8 and 4
//   32 query heads over tp 16, 8 key heads replicated  ->  32 and 4
//
// An all_to_all may exchange n parts of a length for heads. This adds two
// predicates: n divides H_loc; n divides K_loc, or K_loc divides n. Some pages
// have 32-bit words that hold elements of p heads (exec::PageFormat::kPacked).
// They add the predicate that no word is divided between two shards.
//
// Batch and lengths are reduced together, the smallest batch first. Packed
// tokens are the product of batch and length. Axes may divide the product
// although they divide neither batch nor length. For example, 3 rows of 4
// tokens over dp 2 do not become 3 rows of 3.
//
// Reduced sizes cannot reveal an overflow of int32 or float16, the growth of
// errors, errors that depend on lane or block sizes, or a fault at one high
// index. --full tests these.
#ifndef SHARDC_VERIFY_CASES_REDUCED_SIZES_H_
#define SHARDC_VERIFY_CASES_REDUCED_SIZES_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "verify/cases/case.h"

namespace shardc::verify {

// The numbers of shards of each dimension that occur in any mode and tensor.
struct Splits {
  std::vector<int64_t> batch;
  std::vector<int64_t> length;
  // Pairs: the number of shards of query heads, and that of key heads.
  std::vector<std::pair<int64_t, int64_t>> heads;
  std::vector<int64_t> dim;
  // The numbers of shards of packed tokens, a dimension of batch x length.
  std::vector<int64_t> tokens = {};
  // An exchange of lengths for heads (all_to_all): query heads in `heads`
  // shards and key heads in `keys` shards are divided into `parts` more parts.
  struct Exchange {
    int64_t heads = 1, keys = 1, parts = 1;
    bool operator==(const Exchange&) const = default;
  };
  std::vector<Exchange> exchanges = {};
  // For pages whose 32-bit words hold elements of several heads
  // (exec::PageFormat::kPacked): pairs of the number of shards of the heads and
  // the number of heads in a word.
  std::vector<std::pair<int64_t, int64_t>> words = {};
};

// Returns the smallest numbers of query and key heads that keep the properties
// of `heads` and `key_heads`. For example, a shard has complete groups of heads
// if and only if a shard of the real heads does.
std::pair<int64_t, int64_t> ReducedHeads(int64_t heads, int64_t key_heads,
                                         const Splits& splits);

// Returns the reduced sizes. The batch has at least two rows for each shard if
// the real batch does. A query that is shorter than its keys stays shorter. A
// head has at least 16 elements for each shard if the real head does. If a
// 32-bit word of a page holds several elements (exec::PageFormat::kPacked), a
// head of 64 elements keeps its size: only with 64 elements do the keys and
// values of a head share a row of the page.
Sizes ReducedSizes(const Sizes& real, const Splits& splits);
// Returns the smallest sizes such that an axis of `used` divides a size if and
// only if the same axis of `given` divides the real size. `given` and `used`
// describe two meshes and have the same axes at the same index. Lengths are at
// least 8 and sizes of a head at least 16, but no size is above the real size.
// Returns nullopt if there are no such sizes.
std::optional<Sizes> ReducedSizes(const Sizes& real, const Splits& given,
                                  const Splits& used);

// Returns the smallest length, at least `least`, that has the same remainder as
// `like` modulo the least common multiple of `splits`. Each number of `splits`
// therefore divides the returned length if and only if it divides `like`.
int64_t LengthLike(int64_t like, int64_t least,
                   const std::vector<int64_t>& splits);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_REDUCED_SIZES_H_
