// Conditions that the sizes of a model must meet. For example, the number of KV
// heads must divide the number of attention heads. The reader of config.json
// refuses other sizes. A step whose sizes are not from a config.json is checked
// against the same conditions.
#ifndef SHARDC_MODEL_LEGAL_SIZES_H_
#define SHARDC_MODEL_LEGAL_SIZES_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"

namespace shardc {

// The largest size that a model's dimension may have, far above real sizes.
inline constexpr int64_t kLargestModelSize = int64_t{1} << 26;
// The largest magnitude of a model's other numbers, such as a rotary base.
inline constexpr double kLargestModelNumber = 1e12;

// The sizes to check. A size that is nullopt is not checked.
struct ModelSizes {
  std::optional<int64_t> heads = {}, kv_heads = {};
  std::optional<int64_t> head_dim = {}, rotary_dim = {};
  // The number of experts; 0 for a model without experts.
  std::optional<int64_t> experts = {}, experts_per_token = {};
};

struct IllegalSize {
  enum class Which : uint8_t { kKvHeads, kExpertsPerToken, kRotaryDim };
  Which which = Which::kKvHeads;  // The size that breaks a condition.
  std::string message, help;
};

// Returns one record for each broken condition. The number of KV heads must
// divide the number of heads. A token goes to at least one expert and at most
// to all. The rotary dimension is even, above 0 and no larger than a head.
std::vector<IllegalSize> IllegalSizes(const ModelSizes& sizes);

// Returns the number of elements of a head that rotary embeddings rotate:
// head_dim * fraction, rounded down.
int64_t RotaryDim(int64_t head_dim, double fraction);

// Dimensions that hold several parts one after the other, each of which the
// axes divide separately. For example, the rows of a fused gate and up
// projection are those of the gate and then those of the projection up. Those
// of a fused query, key and value projection may have different sizes:
//
//   8 rows over tp:2             rows 0 1 2 3 | 4 5 6 7
//   in 2 parts                   rows 0 1 4 5 | 2 3 6 7
//   in parts of 4, 2 and 2 rows  rows 0 1 4 6 | 2 3 5 7
//
// A device holds a range of each part.

// The parts of one dimension.
struct PartsOfDim {
  int64_t count = 1;  // 1 for a dimension that is one part
  // The size of each part, in order, if the sizes are stated. Empty if only the
  // number is stated: the parts are then equal.
  std::vector<int64_t> sizes = {};

  bool several() const { return count > 1; }
  auto operator<=>(const PartsOfDim&) const = default;
};

// The parts of each dimension. Dimensions after the last entry have one part,
// so an empty list means that no dimension has several.
using DimParts = std::vector<PartsOfDim>;

const PartsOfDim& PartsAt(const DimParts& parts, size_t dim);
// Returns the parts of a dimension in the notation of rules and plans: `null`,
// `2` or `[4, 2, 2]`; and those of all dimensions, such as `[null, 2]`.
std::string PartsText(const PartsOfDim& parts);
std::string DimPartsText(const DimParts& parts);
void WriteDimParts(JsonWriter& json, const DimParts& parts);

// Returns " in parts [2]", to follow a spec in a message; an empty text if no
// dimension has several parts.
std::string InPartsText(const DimParts& parts);
// Returns the sizes of the parts of a dimension of `size` elements. Returns
// nullopt if they do not sum to it: their number does not divide it, or the
// stated sizes have another sum.
std::optional<std::vector<int64_t>> SizesOfParts(const PartsOfDim& parts,
                                                 int64_t size);
// Returns whether the shape has all dimensions with several parts, and the
// parts sum to their sizes.
bool PartsDivide(const DimParts& parts, const Shape& shape);
// Returns whether some dimension has parts whose sizes are stated.
bool StatesSizes(const DimParts& parts);

// Returns the parts of those dimensions that a spec shards, without entries at
// the end that are 1. The parts of an unsharded dimension mean nothing.
DimParts ShardedParts(const DimParts& parts, const Spec& spec);
// Returns the parts with the number of parts in place of sizes that are equal
// and sum to the size of the dimension.
DimParts NumbersOfEqual(DimParts parts, const Shape& shape);

// A dimension of equal parts is two: the number of a part, which is unsharded,
// and the elements of a part, which the axes divide. The elements have the same
// order in memory. In these dimensions a shard is one range of each, so that
// what computes with ranges need not know of parts. Parts of different sizes
// are not two dimensions, so what computes so takes equal parts only.

// The number of equal parts of each dimension, as in DimParts.
using EqualParts = std::vector<int64_t>;

int64_t PartsAt(const EqualParts& parts, size_t dim);
DimParts DimPartsOf(const EqualParts& parts);
// Returns nullopt if the sizes of some parts are stated.
std::optional<EqualParts> EqualPartsOf(const DimParts& parts);
// Returns the numbers of equal parts, and one part for a dimension whose parts
// have stated sizes.
EqualParts EqualAmong(const DimParts& parts);

// Return the shape or the spec with two dimensions in place of each
// that has parts: [8, 2] with the parts [2] becomes [2, 4, 2], and ["tp"]
// becomes [null, "tp"]. The parts must divide the sizes.
Shape SplitShape(const Shape& shape, const EqualParts& parts);
Spec SplitSpec(const Spec& spec, const EqualParts& parts);
// Returns the shape of a range of elements in the dimensions of the tensor:
// [2, 2, 2] with the parts [2] becomes [4, 2].
Shape JoinShape(const Shape& split, const EqualParts& parts);
// Returns the index of a dimension after the dimensions were split. For a
// dimension with parts, this is the index of the elements of a part.
size_t SplitDim(size_t dim, const EqualParts& parts);

}  // namespace shardc

#endif  // SHARDC_MODEL_LEGAL_SIZES_H_
