// Directory: plan. Compiles and reads plans. A plan has, for every parameter,
// its spec and the shard and bytes that each device holds.
// Its files include headers of these directories: source, model, match,
// program, resolve, legalize, roles, comm, schedule, step, facts.
//
// A compiled plan is immutable. Parameters share one layout if the same rule
// wins, if they have the same shape and dtype, and if their specs have the same
// origin. A plan of 90,000 parameters therefore has only some hundred layouts.
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
#include "plan/kv_layout.h"
#include "plan/plan_axes.h"
#include "plan/plan_stages.h"
#include "resolve/resolve.h"
#include "source/text_order.h"

namespace shardc {

// KV heads that are replicated over a part of the devices of their axes
// (plan/kv_layout.h).
struct KvReplicas {
  int dim = 0;
  AxisGroup axes;     // the axes of the dimension before the replication
  int64_t heads = 0;  // the number of KV heads
  bool operator==(const KvReplicas&) const = default;
};

struct ModeLayout {
  Mode mode = Mode::kTrain;
  Resolved why;  // How the names in the rule's spec became mesh axes.
  // The rule from which the spec comes; -1 if no rule matches. If the winning
  // rule copies the spec of another parameter (`like`), it is the rule from
  // which that parameter's spec comes.
  int32_t spec_rule = -1;
  // The spec before legalization. With `like`, it has one entry for each
  // dimension.
  Spec resolved;
  Spec spec;  // The spec after legalization.
  std::vector<Edit> edits;
  // Why the spec is illegal; empty if it is legal.
  std::vector<Edit> problems;
  // The shape of the largest shard; nullopt if unknown or if the spec is
  // illegal. Under the policy `pad`, other shards may be shorter or empty.
  std::optional<Shape> shard_shape;
  std::optional<int64_t> bytes_per_device;
  // The bytes per device if legalization had not changed the spec. The plan's
  // member `bytes_per_device_added` is the difference from `bytes_per_device`.
  std::optional<int64_t> uncorrected_bytes_per_device;
  // With `kv_replicate`: the replicated KV heads; nullopt for parameters whose
  // KV heads are not replicated, or that have none.
  std::optional<KvReplicas> kv;
};

struct ParamLayout {
  // An index into the rules; -1 for a scalar or if no rule matches.
  int32_t rule = -1;
  // Whether no rule matches the parameter, so that `rule` is -1. Always false
  // for a scalar.
  bool unmatched = false;
  // Whether in some mode the axes of a dimension do not divide its size, which
  // only the policy `pad` permits. Always false for an illegal spec.
  bool uneven = false;
  uint32_t type = 0;  // index into Plan::types
  // The parts of those dimensions that a mode shards.
  DimParts parts;
  std::vector<ModeLayout> modes;  // Train, then the plan's other modes.
};

// A parameter of a plan. Parameters have the order of the manifest's tensors. A
// plan may have millions of parameters, so data that few plans need is stored
// outside of this struct.
struct PlannedParam {
  static constexpr uint32_t kNotPlaced = UINT32_MAX;
  uint32_t layout = 0;          // index into Plan::layouts
  uint32_t place = kNotPlaced;  // index into Plan::coordinates

  bool IsPlaced() const { return place != kNotPlaced; }
};

struct PlannedRule {
  std::string match;
  std::string source;  // The rule's file and line, such as "rules.yaml:12".
  // The number of parameters for which the rule is the first match.
  int64_t params = 0;
  // The number of parameters whose names the pattern matches, even if an
  // earlier rule matches them too.
  int64_t matched = 0;
};

// The spec of a tensor of attention or of another activation. Only its axes are
// checked, because its sizes are not known here.
struct ActivationLayout {
  std::string tensor;  // The name, such as "query" or "hidden".
  Resolved why;
  Place place;  // Where the rules state the spec; empty for other activations.
  // The spec after legalization. If the spec is illegal and was not corrected,
  // this is the spec before legalization.
  Spec spec;
  std::vector<Edit> edits;
  std::vector<Edit> problems;  // Why the spec is illegal; empty if it is legal.

  // Returns whether `activations:` of the rules states the spec.
  bool IsStated() const { return place.source != nullptr; }
};

struct ModeActivations {
  Mode mode = Mode::kTrain;
  std::vector<ActivationLayout> tensors;
};

struct PlanSummary {
  int64_t params = 0;
  std::optional<int64_t> elements;
  std::optional<int64_t> bytes;
  // The bytes of the fullest device in train.
  std::optional<int64_t> bytes_per_device;
  int64_t unmatched = 0;
  int64_t illegal = 0;
  int64_t corrected = 0;
  // Indexed by rank: the bytes of the rank's fullest device in train; empty for
  // a plan without stages.
  std::vector<std::optional<int64_t>> bytes_by_rank;
};

struct Plan {
  Mesh mesh;
  PlanAxes axes;            // What the axes of the mesh are for.
  std::vector<Mode> modes;  // The requested modes, in the order of kAllModes.
  std::vector<PlannedRule> rules;
  std::vector<TensorType> types;
  // The names of the parameters in the manifest's order. A view of the
  // manifest's tensors, or of another list that outlives the plan.
  Texts names;
  // Indices of the parameters in the byte order of their names. Empty if they
  // have not been sorted yet.
  std::vector<uint32_t> by_name;
  // Whether all names are known to need no escapes in JSON
  // (source/plain_json.h).
  bool plain_names = false;
  std::vector<PlannedParam> params;
  // The coordinates of the placed parameters, indexed by PlannedParam::place.
  // Only the devices at this coordinate hold the parameter. The `place` of a
  // rule states the axis of the coordinate.
  std::vector<int64_t> coordinates;
  // Indexed by parameter: whether it has weight decay; empty if every parameter
  // has it.
  std::vector<bool> weight_decay;
  std::vector<ParamLayout> layouts;
  // Indexed by rule: the axis of the rule's `place`, or an empty text.
  std::vector<std::string> placement_axes;
  std::vector<ModeActivations> attention;
  // The other activations, such as the hidden state (ActivationSpecs()).
  std::vector<ModeActivations> activations;
  // What the layers keep for each request; empty if it is not known.
  std::vector<KvKind> kv;
  bool has_weight_decay = false;
  // The stages of a pipeline; nullopt for a plan without stages. With stages,
  // no spec has the axis of the stages. The bytes in `layouts` are those of a
  // device that holds all layers of a layer stack, even if each stage has only
  // some of them.
  std::optional<PlanStages> stages;
  // The distinct sets of stages. Several parameters may share one set.
  std::vector<ParamStages> stage_sets;
  // Indexed by parameter: the index of its set in stage_sets.
  std::vector<uint32_t> stage_set;
  PlanSummary summary;

  // If the parameter is placed, only the devices at one coordinate of a mesh
  // axis hold it. Returns this coordinate, or nullopt for other parameters.
  std::optional<int64_t> CoordinateOf(const PlannedParam& param) const {
    if (!param.IsPlaced()) return std::nullopt;
    return coordinates[param.place];
  }
  // Sets the coordinate at which a parameter is held. The parameter must not
  // have a coordinate yet.
  void Place(PlannedParam& param, int64_t coordinate) {
    param.place = static_cast<uint32_t>(coordinates.size());
    coordinates.push_back(coordinate);
  }
  bool WeightDecayOf(size_t param) const {
    return weight_decay.empty() || weight_decay[param];
  }
  // Returns the stages that have a parameter, or null for a plan without
  // stages.
  const ParamStages* StagesOf(size_t param) const {
    return stages ? &stage_sets[stage_set[param]] : nullptr;
  }
};

}  // namespace shardc

#endif  // SHARDC_PLAN_PLAN_H_
