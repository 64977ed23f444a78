// Directory: plan/difference. Compares two plans, two modes of one plan or two
// step programs. The result is one value that `diff`, `plan --diff`, `check
// --locked` and the page of `report` print.
// Its files include headers of these directories: source, model, comm, plan.
//
// The result for two plans is a PlanDifference. Its member `fields` has all
// differences of the plans' JSON, including members that no other part of the
// program reads. A difference that only follows from another difference is not
// listed.
//
// If both files are valid plans, the members from `added` to `attention`
// describe the same differences in detail: the bytes per device before and
// after, and the collective that reshards a parameter. Parameters whose names
// differ only in numbers and that differ in the same way are one group.
#ifndef SHARDC_PLAN_DIFFERENCE_PLAN_DIFFERENCE_H_
#define SHARDC_PLAN_DIFFERENCE_PLAN_DIFFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/reshard.h"
#include "model/axis_rules.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "plan/plan_stages.h"
#include "plan/plan_table.h"
#include "plan/read.h"
#include "source/finding.h"
#include "source/json.h"
#include "source/source.h"

namespace shardc {

// A member of the plan's JSON that differs.
struct FieldChange {
  Place place;  // The place of the member in the first plan.
  // The path of the member, such as "mesh.processes" or
  // "attention.decode.query". For a parameter it is relative to the parameter's
  // entry ("modes.decode.spec"). It is empty if only one plan has the
  // parameter, or if the parameter's entry is not a JSON object.
  std::string field;
  // The member's value as JSON; nullopt if the member is absent.
  std::optional<std::string> before, after;
  // The parameter's name, or the template of several names (`layers.*.up`).
  std::string shown;
  // The names of the parameters whose entries differ in this way. Empty if the
  // member is in another part of the plan, such as the mesh.
  std::vector<std::string> names;
  // The text of the report, such as "the spec of `layers.*.up` (2 parameters)
  // was ["tp"] and is [null]".
  std::string message;
  // Whether another part of the report also describes the difference: another
  // list of PlanDifference, the two meshes, or the field `stages`. Reports omit
  // such a field.
  bool detailed = false;
};

struct NamedGroup {
  // The parameter's name, or the template of several names (`layers.*.up`).
  std::string shown;
  std::vector<std::string> names;
  TensorType type;
  // How many bytes of one parameter a device holds in train, if it holds any.
  std::optional<int64_t> held;
};

// Parameters whose spec or placement differs, or of which a device holds
// another number of bytes or another block. If only the mesh differs, `before`
// and `after` are equal.
struct SpecChange : NamedGroup {
  // The modes in which the spec changes in this way. If two modes of one plan
  // are compared, the list has only the second mode.
  std::vector<Mode> modes;
  Spec before, after;
  // The parts of the dimensions that the specs shard, each of which the axes
  // divide.
  DimParts parts_before, parts_after;
  // The placements of the group's first parameter: the axis, and the only
  // coordinate at which devices hold it. nullopt if it is not placed.
  std::optional<ReadPlacement> placed_before, placed_after;
  // How many bytes of one parameter a device holds in these modes, if it holds
  // any.
  std::optional<int64_t> held_before, held_after;
  // The bytes of all parameters of the group on the fullest device.
  std::optional<int64_t> group_before, group_after;
  // The collective that reshards one parameter, and the bytes that the busiest
  // device sends for it. Both are nullopt in these cases:
  // - Every device already holds what it needs.
  // - The numbers of devices differ.
  // - The shape is unknown or differs, or a spec does not divide it.
  // - The parameter is placed at a coordinate of an axis.
  // - The plans have different stages, or only one plan has stages.
  // Only the bytes are nullopt if the dtype is unknown, if the bytes overflow,
  // or if a dimension is sharded with other parts before than after.
  std::optional<SpecMove> move;
  std::optional<int64_t> sent_bytes_per_device;
};

// Returns for example "on all devices -> at ep 0". Returns an empty text if the
// placement does not differ. The parameters of a group have different
// coordinates, so the text for several parameters names only the axis: "on all
// devices -> along ep", or "at other coordinates of ep".
std::string PlacementChangeText(const SpecChange& change);

// The members `type` and `held` of NamedGroup are those of the second plan.
struct TypeChange : NamedGroup {
  TensorType before;
  std::optional<int64_t> held_before;
};

struct RuleChange : NamedGroup {
  // The patterns of the winning rules; empty if no rule matches.
  std::string before, after;
};

// A change of the spec of a tensor of attention or of another activation.
struct ActivationChange {
  std::string tensor;
  std::vector<Mode> modes;
  Spec before, after;
};

// The bytes of all parameters on the fullest device, before and after.
struct HeldChange {
  // The modes in which the bytes have these two values.
  std::vector<Mode> modes;
  std::optional<int64_t> before, after;
};

// Consecutive layers whose stage, or whose ranks, differ between the two plans.
struct LayerMove {
  Place place = {};  // The place of the member `stages` in the first plan.
  LayerRange layers;
  int32_t stage_before = 0, stage_after = 0;
  std::vector<int32_t> ranks_before, ranks_after;
};

// A difference between two step programs: a mode, a setting or a collective.
struct StepChange {
  Place place;  // The place of the difference in the first program.
  std::string mode;
  // What differs, such as "layer 0-31, linear q: all_gather fsdp of [d,n,h]".
  std::string subject;
  std::string message;
  // The numbers of times that a collective runs.
  int64_t count_before = 0, count_after = 0;
  // The bytes that a device sends in all runs of the collective.
  int64_t bytes_before = 0, bytes_after = 0;
};

struct PlanDifference {
  Mesh mesh_before, mesh_after;
  // Whether the meshes' axes differ in name, order or size.
  bool other_mesh = false;
  // Whether both files are valid plans. If not, `fields`, `attention`
  // and `activations` are the only lists below that are set.
  bool detailed = false;
  int64_t params_before = 0, params_after = 0;
  std::vector<HeldChange> held;
  // The layers that move between stages. Empty unless both plans have stages.
  std::vector<LayerMove> layers;
  // Indexed by rank: the bytes of all parameters in train on the rank's fullest
  // device; empty for a plan without stages.
  std::vector<std::optional<int64_t>> by_rank_before, by_rank_after;
  std::vector<NamedGroup> added, removed;
  std::vector<TypeChange> reshaped;
  std::vector<SpecChange> specs;
  std::vector<RuleChange> rules;
  std::vector<ActivationChange> attention, activations;
  std::vector<FieldChange> fields;
  std::vector<StepChange> steps;

  bool empty() const {
    return fields.empty() && steps.empty() && specs.empty() &&
           attention.empty() && activations.empty() && layers.empty();
  }
};

// Compares the JSON of two plans, even if their fingerprints are equal.
// Spacing, the order of members and the `source` of rules are ignored. Returns
// nullopt and adds an error if the first file is not a plan, or if one of the
// files is not JSON.
std::optional<PlanDifference> ComparePlans(const SourceRef& before,
                                           const SourceRef& after,
                                           Findings& errors);
// Compares two plans that have already been read. PlanTable::source must be set
// in both, because the JSON is compared.
std::optional<PlanDifference> ComparePlans(const PlanTable& before,
                                           const PlanTable& after,
                                           Findings& errors);
PlanDifference CompareModes(const PlanTable& plan, Mode before, Mode after);

// Compares two step programs (shardc.step/v1) and sets `steps`. Returns nullopt
// and adds an error if the first file is not a step program, or if one of the
// files is not JSON.
std::optional<PlanDifference> CompareSteps(const SourceRef& before,
                                           const SourceRef& after,
                                           Findings& errors);

// Compares the members of two plans, except for the entries of parameters.

// A member that differs between two entries. The parameter's name is not part
// of it, so all parameters with the same two entries share one EntryChange.
struct EntryChange {
  std::string field;  // The path of the member, such as "modes.decode.spec".
  // The member's value as JSON; nullopt if the entry has no such member.
  std::optional<std::string> before, after;
  // The text before the parameter's name, such as "the spec of ".
  std::string subject;
  // The text after the parameter's name, such as " was ["tp"] and is [null]".
  std::string verdict;
  // The byte range of the member in the first entry, counted from the beginning
  // of the entry. For "modes.decode.spec" it is the range of the entry of
  // `decode`. nullopt if the first entry has no such member, and for the field
  // `rule`.
  std::optional<size_t> begin, end;
};

// The patterns of a plan's rules as JSON, indexed by rule.
using RulePatterns = std::vector<std::string>;

// Compares two entries. If shape, dtype or a spec differs, the winning rule's
// pattern, the sizes and the corrections usually differ too. They are therefore
// compared only if shape, dtype and specs are equal. The same holds for members
// that shardc does not know.
std::vector<EntryChange> CompareEntries(const JsonValue& before,
                                        const JsonValue& after,
                                        const RulePatterns& rules_before,
                                        const RulePatterns& rules_after);

// Returns the text " was BEFORE and is AFTER".
std::string WasAndIs(const std::string& before, const std::string& after);

// The members of a plan's JSON. Any of them may be absent or of the wrong type.
struct PlanJson {
  explicit PlanJson(JsonValue of) : root(of), members(MembersOf(of)) {}
  // Returns the place of the member, or of the plan if the member is absent.
  Place PlaceOf(std::string_view member) const;
  RulePatterns Patterns() const;

  JsonValue root;
  JsonMembers members;
};

// These functions append differences to `to.fields`. CompareActivationFields
// also appends to `to.attention` and `to.activations`.
void CompareMeshFields(const PlanJson& before, const PlanJson& after,
                       PlanDifference& to);
void CompareActivationFields(const PlanJson& before, const PlanJson& after,
                             PlanDifference& to);
// Compare the remaining members. Some of them follow from other members: the
// numbers in rules, the summary and the fingerprint. These are compared only if
// nothing else differs, for example because one of the plans was edited.
// Therefore CompareRuleFields and then CompareRemainingFields must be called
// after all other functions.
void CompareRuleFields(const PlanJson& before, const PlanJson& after,
                       PlanDifference& to);
void CompareRemainingFields(const PlanJson& before, const PlanJson& after,
                            PlanDifference& to);

// Compares the pipeline stages of two plans.

// Returns the layers of both plans whose stage differs, or whose stage is on
// other ranks, in ascending order. Consecutive layers with the same move are
// one entry.
std::vector<LayerMove> LayerMoves(const PlanStages& before,
                                  const PlanStages& after);

// Returns for example "layers 8-9 move from stage 1 on rank 1 to stage 0 on
// rank 0".
std::string LayerMoveText(const LayerMove& move);

// Returns whether moved layers explain why the stages of a parameter changed.
// They explain it in two cases. The parameter was and is in a single stage, and
// a layer moved between the same two stages. Or the parameter is a tensor that
// holds a layer stack, and any layer moved.
bool IsExplained(const std::vector<LayerMove>& moves, const ParamStages& before,
                 const ParamStages& after);

// Appends the differences in the member `stages` to `to.fields`, and sets the
// places of `to.layers`. Does nothing if one of the plans has no stages. The
// member `copies` is not compared. The layers of stages are compared only if
// one of the files is not a valid plan. The member `table`, a digest of the
// pipeline schedule's tasks, is compared only if the other members are equal.
void CompareStageFields(const PlanJson& before, const PlanJson& after,
                        PlanDifference& to);

// Compares the member `of` (the list of stages) and the member `copies` (the
// embeddings that two stages hold). Appends them to `to.fields` if they differ.
// In a correct plan they follow from the layers and the parameters. Compare()
// therefore calls this function only if all of these are equal, which means
// that one of the plans was edited.
void CompareStageLists(const PlanJson& before, const PlanJson& after,
                       PlanDifference& to);

}  // namespace shardc

#endif  // SHARDC_PLAN_DIFFERENCE_PLAN_DIFFERENCE_H_
