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
  // A row of the table of functions (step/functions.h).
  std::string fn = {};
  double constant = 0;
};

// One dimension label. kSum and kMax remove the label, and kBroadcast adds it.
// An id names one element along the label, which kPick reads and kPlace writes.
// kSplit divides the label into its factors, and kMerge joins them. kCacheWrite
// writes rows along the label.
struct LabelAttributes {
  LabelId label = kNoLabel;
};

// Attributes of kLookup, kScatter.
struct LookupAttributes {
  LabelId rows = kNoLabel;
  int64_t offset = 0;  // is added to the ids
};

// Attributes of kPart, kUnpart.
struct PartAttributes {
  LabelId whole = kNoLabel;  // a label with parts
  LabelId part = kNoLabel;
  int64_t number = 0;  // the part's index among the parts of `whole`
};

// Attributes of kIndex, kUnindex.
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
  int8_t sign = 1;   // -1 rotates back
};

enum class MaskRule : uint8_t {
  kNone,     // every key is seen
  kCausal,   // keys after the query or beyond its window are hidden
  kChunked,  // keys after the query or in another window are hidden
};

struct MaskAttributes {
  MaskRule rule = MaskRule::kCausal;
  LabelId window = kNoLabel;  // kNoLabel: no window
  // The label of the heads, if the mask has ALiBi slopes (else kNoLabel), and a
  // factor of all slopes.
  LabelId heads = kNoLabel;
  Scale slope_scale = {};
};

// Attributes of kRepeat, kGroupSum.
struct HeadGroupAttributes {
  LabelId kv_heads = kNoLabel, query_heads = kNoLabel;
  // Whether each device numbers the heads of its shard from 0.
  bool in_slices = false;
};

enum class GroupScore : uint8_t { kMax, kTop2 };

struct TopGroupsAttributes {
  LabelId experts = kNoLabel;
  LabelId groups = kNoLabel, chosen = kNoLabel;  // all groups, chosen groups
  // Selects a group's score: its largest score, or the sum of its two largest.
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
  int64_t key = 0;  // the key of the random bits
};

enum class AdamWResult : uint8_t { kParameter, kFirstMoment, kSecondMoment };

struct AdamWAttributes {
  AdamWResult result = AdamWResult::kParameter;
  double decay = 0;
};

struct RollAttributes {
  LabelId label = kNoLabel;
  int8_t sign = 1;    // 1: to the next place, -1: to the one before
  bool open = false;  // zeros, not the row moved out, fill the free end
};

struct DistanceAttributes {
  LabelId rows = kNoLabel;
  // The size of this label is a distance. All keys at this distance from the
  // query or farther have the last row of their side.
  LabelId longest = kNoLabel;
  bool both_sides = false;  // keys may follow the query too
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
