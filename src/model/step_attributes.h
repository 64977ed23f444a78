// The attributes that an op of a step has in addition to its operands and its
// result, such as the label over which it sums. Kinds of ops with the same
// attributes share a type. A type that only one kind uses is named after that
// kind. OpDef (step/op_def.h) gives the type for each kind, and the comments of
// OpKind (step_graph.h) explain the fields.
#ifndef SHARDC_MODEL_STEP_ATTRIBUTES_H_
#define SHARDC_MODEL_STEP_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace shardc::step {

using LabelId = int16_t;  // index into Graph::labels
inline constexpr LabelId kNoLabel = -1;

// A number that depends on global sizes: the constant times the product of
// (size of the label)^power, such as 1 / sqrt(head dimension).
struct Scale {
  double constant = 1;
  std::vector<std::pair<LabelId, double>> powers = {};
};

struct NoAttributes {};

struct ScaleAttributes {
  Scale factor = {};
};

struct FnAttributes {
  // The name of a scalar function, such as `silu` (step/functions.h).
  std::string fn = {};
  double constant = 0;
};

// One dimension label, whose use depends on the op. kSum and kMax remove the
// label, and kBroadcast adds it. kPick reads one element along the label, whose
// index is an operand (the id). kPlace writes one element in this way. kSplit
// divides the label into its factors, and kMerge joins them. kCacheWrite writes
// rows along the label.
struct LabelAttributes {
  LabelId label = kNoLabel;
};

// Attributes of kLookup and kScatter.
struct LookupAttributes {
  LabelId rows = kNoLabel;
  // The row of the table for an id is the id plus this offset.
  int64_t offset = 0;
};

// Attributes of kPart and kUnpart.
struct PartAttributes {
  LabelId whole = kNoLabel;  // A label that has parts, such as c+r.
  LabelId part = kNoLabel;
  int64_t number = 0;  // The index of the part among the parts of `whole`.
};

// Attributes of kIndex and kUnindex.
struct IndexAttributes {
  LabelId label = kNoLabel;
  int64_t row = 0;
};

struct RenameAttributes {
  LabelId from = kNoLabel, to = kNoLabel;
};

struct RopeAttributes {
  LabelId label = kNoLabel;
  int64_t rope = 0;  // index into Graph::ropes
  int8_t sign = 1;   // 1 rotates by the angles, -1 by the negative angles.
};

enum class MaskRule : uint8_t {
  kNone,    // Every key is visible.
  kCausal,  // Keys after the query, and keys before its window, are hidden.
  // The positions are divided into windows. A key is hidden if it is after the
  // query or in another window than the query.
  kChunked,
};

struct MaskAttributes {
  MaskRule rule = MaskRule::kCausal;
  // The label whose size is the window; kNoLabel if there is no window.
  LabelId window = kNoLabel;
  // If the mask adds ALiBi slopes, `heads` is the label of the heads, and
  // `slope_scale` is a factor of all slopes. Otherwise `heads` is kNoLabel.
  LabelId heads = kNoLabel;
  Scale slope_scale = {};
};

// Attributes of kRepeat and kGroupSum.
struct HeadGroupAttributes {
  LabelId kv_heads = kNoLabel, query_heads = kNoLabel;
  // True if each device numbers the heads of its own shard from 0, instead of
  // using the heads' numbers in the whole model.
  bool in_slices = false;
};

enum class GroupScore : uint8_t { kMax, kTop2 };

struct TopGroupsAttributes {
  LabelId experts = kNoLabel;
  // `groups` is the label whose size is the number of groups. The size of
  // `chosen` is the number of chosen groups.
  LabelId groups = kNoLabel, chosen = kNoLabel;
  // How a group is scored: by its largest score, or by the sum of its two
  // largest.
  GroupScore score = GroupScore::kMax;
};

struct TopKAttributes {
  LabelId experts = kNoLabel, chosen = kNoLabel;
};

struct SlotsAttributes {
  LabelId experts = kNoLabel, slots = kNoLabel;
};

struct DropoutAttributes {
  double rate = 0;
  // The key from which the random bits are generated, like JAX's PRNG key.
  int64_t key = 0;
};

enum class AdamWResult : uint8_t { kParameter, kFirstMoment, kSecondMoment };

struct AdamWAttributes {
  AdamWResult result = AdamWResult::kParameter;
  double decay = 0;
};

struct RollAttributes {
  LabelId label = kNoLabel;
  // 1 moves each row to the next index of `label`, -1 to the previous index.
  int8_t sign = 1;
  // True if zeros fill the free end, in place of the row that is moved out.
  bool open = false;
};

struct DistanceAttributes {
  LabelId rows = kNoLabel;
  // The label whose size is a limit on distances. All keys at this distance
  // from the query or farther share one row of the table: one row for keys
  // before the query and one for keys after it.
  LabelId longest = kNoLabel;
  bool both_sides = false;  // True if keys may also follow the query.
};

using OpAttributes =
    std::variant<NoAttributes, ScaleAttributes, FnAttributes, LabelAttributes,
                 LookupAttributes, PartAttributes, IndexAttributes,
                 RenameAttributes, RopeAttributes, MaskAttributes,
                 HeadGroupAttributes, TopGroupsAttributes, TopKAttributes,
                 SlotsAttributes, DropoutAttributes, AdamWAttributes,
                 RollAttributes, DistanceAttributes>;

}  // namespace shardc::step

#endif  // SHARDC_MODEL_STEP_ATTRIBUTES_H_
