// Room: plan. Compiles and reads plans. A plan has, for every parameter, its
// spec and the shard and bytes that each device holds.
// Includes: source, model, match, resolve, legalize, roles, comm, schedule,
// step.
//
// A compiled plan is immutable. Parameters with the same winning rule, type and
// origin of the spec share one layout, so a plan of 90,000 parameters has some
// hundred layouts.
#ifndef SHARDC_PLAN_PLAN_H_
#define SHARDC_PLAN_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "legalize/legalize.h"
#include "match/match.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "plan/plan_stages.h"
#include "resolve/attention.h"
#include "resolve/resolve.h"
#include "source/texts.h"

namespace shardc {

struct ModeLayout {
  Mode mode = Mode::kTrain;
  Resolved why;  // how the names of the spec were resolved
  // The rule from which the spec comes; -1 if no rule matches. With `like` it
  // is not the winning rule.
  int32_t spec_rule = -1;
  Spec resolved;  // before legalization; with `like` fitted to the rank
  Spec spec;      // after legalization
  std::vector<Edit> edits;
  std::vector<Edit> problems;        // if not empty, the spec is illegal
  std::optional<Shape> shard_shape;  // nullopt if unknown or illegal
  std::optional<int64_t> bytes_per_device;
  // The bytes per device without corrections, for `bytes_per_device_added`.
  std::optional<int64_t> uncorrected_bytes_per_device;
};

struct ParamLayout {
  int32_t rule = -1;  // index into rules; -1 if unmatched or scalar
  // Whether no rule matches the parameter. `rule` is then -1. A scalar is never
  // unmatched.
  bool unmatched = false;
  uint32_t type = 0;              // index into Manifest::types
  std::vector<ModeLayout> modes;  // train, then the plan's other modes
};

// Parameters have the order of the manifest's tensors. A plan may have millions
// of them, so data that few plans need is stored outside of this struct.
struct PlannedParam {
  static constexpr uint32_t kNotPlaced = UINT32_MAX;
  uint32_t layout = 0;          // index into Plan::layouts
  uint32_t place = kNotPlaced;  // index into Plan::coordinates

  bool IsPlaced() const { return place != kNotPlaced; }
};

struct PlannedRule {
  std::string match;
  std::string source;   // "rules.yaml:12"
  int64_t params = 0;   // number of parameters that the rule won
  int64_t matched = 0;  // parameters in which its pattern is found
};

// The spec of a tensor of attention. Only its axes are checked, because its
// sizes are not known here.
struct AttentionLayout {
  std::string tensor;  // "query", "key", ...
  Resolved why;
  Spec spec;  // after legalization, or as resolved if illegal
  std::vector<Edit> edits;
  std::vector<Edit> problems;  // if not empty, the spec is illegal
};

struct ModeAttention {
  Mode mode = Mode::kTrain;
  std::vector<AttentionLayout> tensors;
};

struct PlanSummary {
  int64_t params = 0;
  std::optional<int64_t> elements;
  std::optional<int64_t> bytes;
  std::optional<int64_t> bytes_per_device;  // on the fullest device in train
  int64_t unmatched = 0;
  int64_t illegal = 0;
  int64_t corrected = 0;
  // With stages: the bytes of the fullest device of each rank, in train.
  std::vector<std::optional<int64_t>> bytes_by_rank;
};

struct Plan {
  Mesh mesh;
  std::vector<Mode> modes;  // requested modes, in canonical order
  std::vector<PlannedRule> rules;
  std::vector<TensorType> types;
  // The names of parameters in the manifest's order, as a view of the
  // manifest's tensors or of another list that outlives the plan.
  Texts names;
  // Indices of the parameters in the byte order of their names. Empty if they
  // have not been sorted yet.
  std::vector<uint32_t> by_name;
  // Whether all names are known to be plain text (source/plain_text.h).
  bool plain_names = false;
  std::vector<PlannedParam> params;
  // The coordinates of the placed parameters (PlannedParam::place), each along
  // the axis of its rule's `place`.
  std::vector<int64_t> coordinates;
  // Whether each parameter has weight decay. Empty if all parameters have it.
  std::vector<bool> weight_decay;
  std::vector<ParamLayout> layouts;
  // Indexed by rule; an empty text if the rule has no `place`.
  std::vector<std::string> placement_axes;
  std::vector<ModeAttention> attention;
  bool has_weight_decay = false;
  // The stages of a pipeline. With stages, no spec has the axis of the stages,
  // and the bytes of a layout are for a device whose stage has the complete
  // parameter.
  std::optional<PlanStages> stages;
  std::vector<ParamStages> stage_sets;  // shared by parameters
  // Indexed by parameter: index into stage_sets.
  std::vector<uint32_t> stage_set;
  PlanSummary summary;

  // Returns the coordinate at which the parameter is placed, or nullopt if it
  // is not placed.
  std::optional<int64_t> CoordinateOf(const PlannedParam& param) const {
    if (!param.IsPlaced()) return std::nullopt;
    return coordinates[param.place];
  }
  // Stores the coordinate of a parameter that has none yet.
  void Place(PlannedParam& param, int64_t coordinate) {
    param.place = static_cast<uint32_t>(coordinates.size());
    coordinates.push_back(coordinate);
  }
  bool WeightDecayOf(size_t param) const {
    return weight_decay.empty() || weight_decay[param];
  }
  // Returns null for a plan without stages.
  const ParamStages* StagesOf(size_t param) const {
    return stages ? &stage_sets[stage_set[param]] : nullptr;
  }
};

}  // namespace shardc

#endif  // SHARDC_PLAN_PLAN_H_
