// Reads from a plan's JSON (`shardc.plan/v1` or `/v2`) those members that other
// commands need. Rules, shard shapes, bytes and attention specs are not read.
#ifndef SHARDC_PLAN_READ_H_
#define SHARDC_PLAN_READ_H_

#include <cstdint>
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
#include "plan/plan_stages.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

struct ReadPlacement {
  std::string axis;
  int64_t coordinate = 0;
  bool operator==(const ReadPlacement&) const = default;
};

struct ReadParam {
  std::string name;
  TensorType type;
  Spec spec;  // The spec in the mode train.
  // The specs of those modes whose spec differs from train.
  std::vector<std::pair<Mode, Spec>> modes;
  std::optional<ReadPlacement> placement;
  // The equal parts of each dimension, each of which the axes divide.
  DimParts parts;
  // The stages of the parameter; empty for a plan without stages.
  ParamStages stages;
  // Whether axes may shard a dimension that they do not divide, so that the
  // last shards are shorter or empty (`illegal: pad`).
  bool uneven = false;
  Place place;  // The place of the parameter's name.

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
  // The parameters in the file's order; names are distinct.
  std::vector<ReadParam> params;
  // The activations except attention's tensors; empty if the plan does not
  // state them.
  std::vector<ReadActivation> activations;
};

// Whether it is an error if a plan was edited after it was written
// (plan/read.h). With kAllowed (`--allow-edited`), only the members that are
// read must be well-formed.
enum class EditedPlan : uint8_t { kRefused, kAllowed };

// On failure, these functions return nullopt and add a finding. Its code is
// schema, number, overflow, dtype, device-count, limit, unknown-name (an axis
// that the mesh lacks), or a code of reading the file, parsing its JSON, or
// plan/read.h.
std::optional<ReadPlan> ReadPlanFile(const std::string& path, EditedPlan edited,
                                     Findings& findings);
std::optional<ReadPlan> ParsePlan(const JsonDocument& document,
                                  EditedPlan edited, Findings& findings);

// Returns a required member of a JSON object, for example of a plan or of the
// index of a sharded checkpoint (shards.json). If the member is absent or not
// of this kind, returns nullopt and adds a finding with the code schema.
std::optional<JsonValue> RequiredMember(const JsonValue& object,
                                        std::string_view key, JsonKind kind,
                                        Findings& findings);
// Returns the axes of an entry of a spec, without members that are no names.
AxisGroup ReadAxisGroup(const JsonValue& entry);
// Reads the specs of tensors by mode, such as {"train": {"query": ["dp"]}}.
// Returns false after a finding.
bool ReadActivations(const JsonValue& modes, std::vector<ReadActivation>& out,
                     Findings& findings);
// Reads the parts of dimensions, such as [null, 2]. Returns nullopt after a
// finding.
std::optional<DimParts> ParseDimParts(const JsonValue& value,
                                      Findings& findings);
// Reads a mesh in the form that plans and shards.json have: {"axes": [{"name",
// "size", "type"}], "devices": 64, "processes": 8}. Returns nullopt after a
// finding.
std::optional<Mesh> ParsePlanMesh(const JsonValue& value, Findings& findings);

// Reads the member `stages` of a plan. On failure, returns nullopt and adds a
// finding. Its code is schema, unknown-name for an axis that the mesh lacks, or
// limit for an axis of too many ranks.
std::optional<PlanStages> ReadPlanStages(const JsonValue& value,
                                         const Mesh& mesh, Findings& findings);

// Reads the member `stages` (a list of numbers) or the member `slices` (an
// object) of a parameter. On failure, returns false and adds a finding with the
// code schema.
bool ReadParamStages(const JsonValue& value, const PlanStages& stages,
                     ParamStages& out, Findings& findings);

// Checks that the parameter has at least one stage and that its specs do not
// use the axis of the stages. If the parameter holds a layer stack, also checks
// that its stages together have all layers. On failure, returns false and adds
// a finding with the code schema at `name`.
bool CheckParamStages(const JsonValue& name, const PlanStages& stages,
                      const ReadParam& param, Findings& findings);

// Detects plans that were edited after the compiler wrote them.

// The parameters of a plan's file, grouped into classes. Parameters with the
// same entry are one class. `names` has the names of all parameters in the
// file's order. class_of[i] is the index of the class of parameter i. The entry
// of the class with index c is member c of `params` in the argument `root` of
// IsUnedited().
struct PlanClasses {
  std::span<const std::string_view> names;
  std::span<const uint32_t> class_of;
};

// Returns whether a plan is unedited. An unedited plan has the members and
// types that plan/seal.cc requires. Its fingerprint is the fingerprint of
// its content. Its shard shapes, bytes and totals follow from its shapes, specs
// and mesh. `plan` was read from `root` and has one parameter for each class.
// If the plan was edited, adds one finding: that of HasPlanForm, or one with
// the code schema at the first member with an unexpected value.
bool IsUnedited(const JsonValue& root, const ReadPlan& plan,
                const PlanClasses& classes, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PLAN_READ_H_
