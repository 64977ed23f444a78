// Conditions that the sizes of a model must meet. For example, the number of KV
// heads must divide the number of attention heads. The reader of config.json
// refuses other sizes. A step whose sizes are not from a config.json is checked
// against the same conditions.
#ifndef SHARDC_MODEL_LEGAL_SIZES_H_
#define SHARDC_MODEL_LEGAL_SIZES_H_

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

// Dimensions that hold several equal parts one after the other, each of which
// the axes divide separately. For example, the rows of a fused gate and up
// projection are those of the gate and then those of the projection up:
//
//   8 rows over tp:2      rows 0 1 2 3 | 4 5 6 7
//   with 2 parts          rows 0 1 4 5 | 2 3 6 7, a range of each part
//
// Such a dimension is two: the number of a part, which is unsharded, and the
// elements of a part, which the axes divide. The elements have the same order
// in memory. Everything that computes which elements a device holds therefore
// computes with these dimensions, in which a shard is one range of each.

// The number of parts of each dimension. Dimensions after the last entry have
// one part, so an empty list means that no dimension has several.
using DimParts = std::vector<int64_t>;

int64_t PartsAt(const DimParts& parts, size_t dim);
// Returns the parts in the notation of rules and plans, such as `[null, 2]`.
std::string DimPartsText(const DimParts& parts);
void WriteDimParts(JsonWriter& json, const DimParts& parts);

// Returns " in parts [2]", to follow a spec in a message; an empty text if no
// dimension has several parts.
std::string InPartsText(const DimParts& parts);
// Returns whether the shape has all dimensions with several parts, and the
// parts divide their sizes.
bool PartsDivide(const DimParts& parts, const Shape& shape);

// Returns the parts of those dimensions that a spec shards, without entries at
// the end that are 1. The parts of an unsharded dimension mean nothing.
DimParts ShardedParts(const DimParts& parts, const Spec& spec);

// Return the shape or the spec with two dimensions in place of each
// that has parts: [8, 2] with the parts [2] becomes [2, 4, 2], and ["tp"]
// becomes [null, "tp"]. PartsDivide() must hold.
Shape SplitShape(const Shape& shape, const DimParts& parts);
Spec SplitSpec(const Spec& spec, const DimParts& parts);
// Returns the shape of a range of elements in the dimensions of the tensor:
// [2, 2, 2] with the parts [2] becomes [4, 2].
Shape JoinShape(const Shape& split, const DimParts& parts);
// Returns the index of a dimension after the dimensions were split. For a
// dimension with parts, this is the index of the elements of a part.
size_t SplitDim(size_t dim, const DimParts& parts);

}  // namespace shardc

#endif  // SHARDC_MODEL_LEGAL_SIZES_H_
