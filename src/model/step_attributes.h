// What an op of a step has in addition to its operands and its result: one type
// for each kind of op that has such attributes. The record of the op's kind
// (step/op_def.h) states which type it is.
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

// A number that depends on sizes: constant times the product of (size of
// label)^power, with global sizes.
struct Scale {
  double constant = 1;
  std::vector<std::pair<LabelId, double>> powers = {};
};

struct NoAttributes {};

// kScale.
struct ScaleAttributes {
  Scale factor = {};
};

// kFn.
struct FnAttributes {
  // A row of the table of functions (step/functions.h).
  std::string fn = {};
  double constant = 0;
};

// Of ops that only name a dimension: the one that kSum, kMax and kBroadcast
// remove or add, the one that kPick and kPlace find an element of, the one with
// factors that kSplit and kMerge split and merge, the rows of kCacheWrite.
struct LabelAttributes {
  LabelId label = kNoLabel;
};

// kLookup, kScatter.
struct LookupAttributes {
  LabelId rows = kNoLabel;
  int64_t offset = 0;  // is added to the ids
};

// kPart, kUnpart.
struct PartAttributes {
  LabelId whole = kNoLabel;  // a label with parts
  LabelId part = kNoLabel;
  int64_t number = 0;  // the part's index among the parts of `whole`
};

// kIndex, kUnindex.
struct IndexAttributes {
  LabelId label = kNoLabel;
  int64_t row = 0;
};

// kRename.
struct RenameAttributes {
  LabelId from = kNoLabel, to = kNoLabel;
};

// kRope.
struct RopeAttributes {
  LabelId label = kNoLabel;
  int64_t rope = 0;  // index into Graph::ropes
  int8_t sign = 1;   // -1 rotates back
};

enum class MaskRule : uint8_t {
  kNone,     // every key is seen
  kCausal,   // keys after the query are hidden, and those beyond its window
  kChunked,  // the same, and keys of another window than the query's
};

// kMask.
struct MaskAttributes {
  MaskRule rule = MaskRule::kCausal;
  LabelId window = kNoLabel;  // kNoLabel: no window
  // The heads with slopes (ALiBi), and the factor of the slopes. kNoLabel: no
  // slopes.
  LabelId heads = kNoLabel;
  Scale slope_scale = {};
};

// kRepeat, kGroupSum.
struct HeadGroupAttributes {
  LabelId kv_heads = kNoLabel, query_heads = kNoLabel;
  // Each device counts the heads of its own shard.
  bool in_slices = false;
};

enum class GroupScore : uint8_t { kMax, kTop2 };

// kTopGroups.
struct TopGroupsAttributes {
  LabelId experts = kNoLabel;
  LabelId groups = kNoLabel, chosen = kNoLabel;  // numbers of groups
  // A group's score: its largest, or the sum of its two largest.
  GroupScore score = GroupScore::kMax;
};

// kTopK.
struct TopKAttributes {
  LabelId experts = kNoLabel, chosen = kNoLabel;
};

// kSlots.
struct SlotsAttributes {
  LabelId experts = kNoLabel, slots = kNoLabel;
};

// kDropout.
struct DropoutAttributes {
  double rate = 0;
  int64_t key = 0;  // of the random bits
};

enum class AdamWResult : uint8_t { kParameter, kFirstMoment, kSecondMoment };

// kAdamW.
struct AdamWAttributes {
  AdamWResult result = AdamWResult::kParameter;
  double decay = 0;
};

// kRoll.
struct RollAttributes {
  LabelId label = kNoLabel;
  int8_t sign = 1;    // 1: to the next place, -1: to the one before
  bool open = false;  // zeros come first, in place of the last row
};

// kDistance.
struct DistanceAttributes {
  LabelId rows = kNoLabel;
  LabelId longest = kNoLabel;  // from this distance on keys have the last row
  bool both_sides = false;     // keys are after the query too
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
