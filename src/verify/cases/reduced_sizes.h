// Finds the smallest sizes with the same relevant properties as the real sizes,
// so that cases can be simulated.
//
// A property is a predicate of a size, such as "tp divides the size". The
// reduced size of a dimension is the smallest one for which all predicates have
// the same values as for the real size. It is never larger than the real size.
//
// The predicates of heads follow from the formulas of operations. Let H be the
// number of query heads, K the number of key heads and G = H/K. H_loc, K_loc
// and L_loc are the query heads, the key heads and the length on one device. An
// operation computes which element it reads. It uses the device's index on an
// axis, the element's index in the shard, and floors and remainders of
// divisions by H_loc, K_loc, G and L_loc. The predicates distinguish whether a
// shard has complete groups of G heads or parts of groups. They also prevent
// shards of one element that the real sizes do not have. An operation that
// reads wrong elements at the real sizes therefore reads wrong elements at the
// reduced sizes as well.
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
// Some operations gather the length of n shards by an all_to_all, and divide
// the heads of each device into n parts. This adds two predicates: n divides
// H_loc; n divides K_loc, or K_loc divides n. Some pages pack elements of p
// heads into 32-bit words (exec::PageFormat::kPacked). They add the predicate
// that no word is divided between two shards.
//
// Batch and length are reduced together, with the smallest batch first. In
// packed layouts, all tokens are one dimension, whose size is the product of
// batch and length. Axes may divide this product although they divide neither
// batch nor length. For example, 3 rows of 4 tokens over dp 2 do not become 3
// rows of 3.
//
// Reduced sizes cannot reveal an overflow of int32 or float16, or errors that
// grow with the size. They also cannot reveal errors that depend on lane or
// block sizes, or a fault at one high index. --full tests these.
#ifndef SHARDC_VERIFY_CASES_REDUCED_SIZES_H_
#define SHARDC_VERIFY_CASES_REDUCED_SIZES_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "model/mesh.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// For each dimension, the numbers of shards into which the layouts of any mode
// and tensor split it. For example, `batch` is {2, 4} if some layouts split the
// batch into 2 shards and others into 4.
struct Splits {
  std::vector<int64_t> batch;
  std::vector<int64_t> length;
  // Pairs: the number of shards of query heads, and that of key heads.
  std::vector<std::pair<int64_t, int64_t>> heads;
  std::vector<int64_t> dim;
  // The numbers of shards of packed tokens, a dimension of batch x length.
  std::vector<int64_t> tokens = {};
  // An all_to_all that gathers the length and shards the heads further. Before
  // it, query heads have `heads` shards and key heads have `keys` shards. It
  // divides each of these shards into `parts` parts.
  struct Exchange {
    int64_t heads = 1, keys = 1, parts = 1;
    bool operator==(const Exchange&) const = default;
  };
  std::vector<Exchange> exchanges = {};
  // For pages whose 32-bit words hold elements of several heads
  // (exec::PageFormat::kPacked). The first number of a pair is the number of
  // shards of the heads. The second is the number of heads in a word.
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

// The number of devices to which ReducedMeshes reduces a mesh for the
// verification of attention. A mesh with many axes, or a run with many
// processes, keeps more devices.
inline constexpr int64_t kMostAttentionDevices = 8;

// Returns the mesh with its longest axes shortened until it has at most
// `most_devices` devices. Axes with more than one device keep at least two
// devices, so the result may have more than `most_devices`.
Mesh ReducedMesh(const Mesh& mesh, int64_t most_devices);

// Returns at most 24 smaller meshes, in the order in which they should be
// tried. The first is ReducedMesh(mesh, least_devices), which may have fewer
// than `least_devices` devices. All other meshes have repeatedly shortened axes
// and at least `least_devices` devices. They are ordered by ascending number of
// devices. Returns an empty list if no such mesh has fewer devices than `mesh`.
std::vector<Mesh> ReducedMeshes(const Mesh& mesh, int64_t least_devices);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_REDUCED_SIZES_H_
