// The smallest sizes that keep the relevant properties of the real sizes.
//
// For each dimension, the reduced size is the smallest one for which the
// predicates below have the same values as for the real size. It is never
// larger than the real size. H is the number of query heads, K the number of
// key heads and G = H/K. H_loc, K_loc and L_loc are the query heads, the key
// heads and the length on one device. An operation computes which element it
// reads from the rank and the local index, by floors and modulos with the
// coefficients H_loc, K_loc, G and L_loc. The predicates decide whether a shard
// has complete groups of G heads or parts of groups. They also prevent shards
// of one element that the real sizes do not have. A map of indices that is
// wrong at the real sizes is therefore wrong at the reduced sizes as well.
//
// For heads, the smallest H and then the smallest K are chosen. The predicates,
// for every pair of shardings, are: axes divide H and K in the same way; K = 1;
// G = 1; H_loc = 1; K_loc = 1; H_loc mod G = 0; G mod H_loc = 0; K_loc divides
// H_loc; H_loc > K_loc; H_loc = G. Written as H/K, 32/8 over tp 8 becomes 16/8,
// 28/4 over 4 becomes 8/4, and 32/8 over 16 with replicated key heads becomes
// 32/4. An exchange of n parts of a length for heads adds two predicates: n
// divides H_loc; n divides K_loc, or K_loc divides n. Pages whose 32-bit words
// hold elements of p heads (exec::PageFormat::kPacked) add the predicate that
// no word is divided between two shards.
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
  // Shards of query heads and of key heads.
  std::vector<std::pair<int64_t, int64_t>> heads;
  std::vector<int64_t> dim;
  // Shards of packed tokens, a dimension of batch x length.
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

// Returns the smallest numbers of query heads H and key heads K for which the
// predicates of the first comment of this file have the same values as for
// `heads` and `key_heads`.
std::pair<int64_t, int64_t> ReducedHeads(int64_t heads, int64_t key_heads,
                                         const Splits& splits);

// Returns the reduced sizes. The batch has at least two rows for each shard if
// the real batch does. A query that is shorter than its keys stays shorter. A
// head has at least 16 elements for each shard if the real head does. A head of
// 64 elements keeps this size if the 32-bit words of a page hold several
// elements (exec::PageFormat::kPacked). In that format, only the keys and
// values of a head of 64 elements share a row.
Sizes ReducedSizes(const Sizes& real, const Splits& splits);
// Returns the smallest sizes that the axes of `used` divide, or do not divide,
// exactly as the axes of `given` divide the real sizes. `given` and `used`
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
