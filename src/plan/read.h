// A plan that was read from its JSON (`shardc.plan/v1` or `/v2`). Shard shapes
// and bytes follow from its other members, so they are not read.
#ifndef SHARDC_PLAN_READ_H_
#define SHARDC_PLAN_READ_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/axis_rules.h"
#include "model/legal_sizes.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/rules.h"
#include "plan/kv_layout.h"
#include "plan/plan_axes.h"
#include "plan/plan_stages.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::program {
struct Facts;
}  // namespace shardc::program

namespace shardc {

struct ReadPlacement {
  std::string axis;
  int64_t coordinate = 0;
  bool operator==(const ReadPlacement&) const = default;
};

struct ReadRule {
  std::string match;
  std::string source;  // Its file and line, such as `rules.yaml:12`, or empty.
  bool operator==(const ReadRule&) const = default;
};

// A change that made a spec legal.
struct ReadCorrection {
  Mode mode = Mode::kTrain;
  // The dimension whose axes were changed; nullopt if the entire spec was
  // changed.
  std::optional<int64_t> dim;
  AxisGroup from;
  std::string reason;
  bool operator==(const ReadCorrection&) const = default;
};

struct ReadParam {
  std::string name;
  TensorType type;
  Spec spec;  // The spec in the mode train.
  // The specs of those modes whose spec differs from train.
  std::vector<std::pair<Mode, Spec>> modes;
  std::optional<ReadPlacement> placement;
  // The parts of each dimension, each of which the axes divide.
  DimParts parts;
  // The stages of the parameter; empty for a plan without stages.
  ParamStages stages;
  // Whether axes may shard a dimension that they do not divide, so that the
  // last shards are shorter or empty (`illegal: pad`).
  bool uneven = false;
  Place place;  // The place of the parameter's name.
  // The index of the rule that matched the parameter; -1 if no rule did.
  int32_t rule = -1;
  std::vector<ReadCorrection> corrections;

  const Spec& SpecOf(Mode mode) const;
  // Returns the policy by which the specs of the parameter are legal: kPad or
  // kError.
  IllegalPolicy Illegal() const {
    return uneven ? IllegalPolicy::kPad : IllegalPolicy::kError;
  }
};

// The spec of a tensor of attention or of another activation. Its axes are not
// checked.
struct ReadActivation {
  Mode mode = Mode::kTrain;
  std::string tensor;
  Spec spec;
  // Whether `activations:` of the rules states the spec.
  bool stated = false;
};

struct ReadPlan {
  std::string fingerprint;
  Mesh mesh;  // The mesh's axes, devices, processes and slices.
  Place mesh_place;
  std::optional<PlanStages> stages;  // nullopt for a plan without stages
  std::vector<Mode> modes;
  std::vector<ReadRule> rules;
  // The parameters in the file's order; names are distinct.
  std::vector<ReadParam> params;
  std::vector<ReadActivation> attention;
  // The activations except attention's tensors; empty if the plan does not
  // state them.
  std::vector<ReadActivation> activations;
  // What the layers keep for each request; empty if the plan does not state it.
  std::vector<KvKind> kv;
  // What the axes of the mesh are for; nullopt if the plan does not state it,
  // as those do not that an earlier shardc wrote.
  std::optional<PlanAxes> axes;
  // What the description of the model's family states about parameters. A plan
  // does not have it: it is null unless a config.json is given as well.
  std::shared_ptr<const program::Facts> described;
};

// Whether it is an error if a plan was edited after it was written. An unedited
// plan has the form of schemas/plan.schema.json. Its fingerprint is that of its
// content, and its shard shapes, bytes and totals follow from its shapes, specs
// and mesh. With kAllowed (`--allow-edited`), only the members that are read
// must have their form.
enum class EditedPlan : uint8_t { kRefused, kAllowed };

// The parameters of a plan's file, grouped into classes. Parameters with the
// same entry are one class. `names` has the names of all parameters in the
// file's order. class_of[i] is the index of the class of parameter i.
struct PlanClasses {
  std::span<const std::string_view> names;
  std::span<const uint32_t> class_of;
};

// On failure, these functions return nullopt and add findings. Their codes are
// those of HasForm (source/json_form.h), overflow, dtype, device-count, limit,
// unknown-name (an axis that the mesh lacks), or a code of reading the file or
// parsing its JSON. An edited plan has the code schema at the first member with
// an unexpected value.
std::optional<ReadPlan> ReadPlanFile(const std::string& path, EditedPlan edited,
                                     Findings& findings);
std::optional<ReadPlan> ParsePlan(const JsonDocument& document,
                                  EditedPlan edited, Findings& findings);
// Reads a plan whose document has one parameter for each class: member c of
// `params` has the entry of class c.
std::optional<ReadPlan> ParsePlanOfClasses(const JsonDocument& document,
                                           const PlanClasses& classes,
                                           EditedPlan edited,
                                           Findings& findings);

// Returns the axes of an entry of a spec that has its form: null, an axis or a
// list of axes.
AxisGroup AxesOf(const JsonValue& entry);
// Returns whether the spec shards a dimension over the axis.
bool UsesAxis(const Spec& spec, const std::string& axis);

// Reads the parts of dimensions, such as [null, 2] or [[4, 2, 2]]. Returns
// nullopt after a finding.
std::optional<DimParts> ParseDimParts(const JsonValue& value,
                                      Findings& findings);
// Reads a mesh in the form that plans and shards.json have: {"axes": [{"name",
// "size", "type"}], "devices": 64, "processes": 8}. Returns nullopt after a
// finding.
std::optional<Mesh> ParsePlanMesh(const JsonValue& value, Findings& findings);

// Returns a required member of a JSON object, for example of the index of a
// sharded checkpoint (shards.json). If the member is absent or not of this
// kind, returns nullopt and adds a finding with the code schema.
std::optional<JsonValue> RequiredMember(const JsonValue& object,
                                        std::string_view key, JsonKind kind,
                                        Findings& findings);

// Returns the names of rules with these patterns, in the same order. The name
// of a rule is its pattern. If earlier rules have the same pattern, a number
// follows: `w`, `w (2)`, `w (3)`. Numbers are skipped if the name would be the
// pattern of another rule, so all names differ.
std::vector<std::string> RuleNames(std::span<const std::string_view> patterns);

// Finds the rule that a parameter of a plan's file names.
class RuleIndex {
 public:
  explicit RuleIndex(std::span<const std::string_view> patterns);
  // Returns the index of the rule, or nullopt if the plan has no such rule.
  // `rule` is a name or, in plans of earlier versions, an index.
  std::optional<int32_t> Find(const JsonValue& rule) const;

 private:
  int64_t count_ = 0;
  std::map<std::string, int32_t, std::less<>> by_name_;
};

// Returns whether a plan, which has the form of a plan, is unedited. `plan` was
// read from `root`. If the plan was edited, adds one finding.
bool IsUnedited(const JsonValue& root, const ReadPlan& plan,
                const PlanClasses& classes, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_READ_H_
