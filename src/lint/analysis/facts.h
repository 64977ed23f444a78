// Directory: lint/analysis. The facts of a compiled target that several lints
// read, computed once.
// Its files include headers of these directories: source, model, parse, match,
// program, resolve, legalize, roles, comm, schedule, step, facts, plan.
//
// This file holds the input of lints: the compiled target, and the facts that
// are derived from it.
//
// Parameters that share a layout and a rule, and whose names differ only in
// numbers (of layers and experts), are one parameter group. A model with 90,000
// parameters has about a hundred groups, and most lints visit only groups.
#ifndef SHARDC_LINT_ANALYSIS_FACTS_H_
#define SHARDC_LINT_ANALYSIS_FACTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "facts/axes.h"
#include "facts/parameters.h"
#include "lint/analysis/topic.h"
#include "model/axis_rules.h"
#include "model/operation_settings.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/nearest.h"
#include "program/facts.h"
#include "roles/classify.h"
#include "roles/layer_stacks.h"
#include "source/source.h"

namespace shardc {

class Facts;
struct ParameterGroup;

// A size in the configuration that contradicts the shapes of parameters, or a
// number or size of heads that the configuration lacks.
struct Misfit {
  // Whether the size belongs to attention heads. If so, lints that need the
  // number of heads are skipped.
  bool heads = false;
  std::string observation;
  // The group whose shape contradicts the size; may be null.
  const ParameterGroup* group = nullptr;
};

// Returns the misfits, or an empty list without a configuration. A size is
// accepted if the tree has no parameter that should have this size.
std::vector<Misfit> MisfitsOf(const Facts& facts);

// Finds operations that run ring attention in zig-zag order. Zig-zag order
// splits the sequence into twice as many chunks as the sequence axes have
// devices.

struct ZigZagRing {
  std::string operation;
  std::optional<Mode> mode;  // nullopt if the order is set for all modes
  // The place of the setting in the project file; may be empty.
  Place place;
};

// Returns the operations for which the settings select zig-zag order. If the
// target lists operations, only these are returned.
std::vector<ZigZagRing> RingsOf(const VerifyInput& input,
                                const OperationsFile& settings,
                                std::span<const KnownOperation> operations);

class AdapterHalves;
struct BlockFacts;
struct ConfigParts;
struct PlannedStages;
class Towers;

struct LintInputs {
  const Compiled* compiled = nullptr;  // never null; must outlive the facts
  const ModelConfig* model = nullptr;
  Place mesh_place;  // place of findings about the mesh; may be empty
  std::optional<int64_t> batch;
  std::optional<int64_t> length;  // tokens per sequence in train and prefill
  std::optional<int64_t> kv_len;
  // The memory of a device in bytes. If it is nullopt, the memory of the device
  // type that the mesh names is used.
  std::optional<int64_t> memory_bytes;
  std::vector<ZigZagRing> rings;  // operations with zig-zag ring attention
  // A traced program of the model. Lints do not guess what it shows.
  const program::TracedProgram* traced = nullptr;
  // If false, findings need not list the names of parameters
  // (Finding::params). There may be millions of names.
  bool lists_names = true;
};

struct ParameterGroup {
  uint32_t of = 0;      // index into facts::ParameterTable::groups
  std::string name;     // name template, as "layers.*.up"
  uint32_t layout = 0;  // index into plan.layouts
  // The first rule that matches the names; -1 if no rule does. It is set for
  // scalars too, although rules do not apply to them.
  int32_t rule = -1;
  uint32_t begin = 0;  // the range of the group in Facts::members_
  uint32_t end = 0;
  // The role by facts::Evidence::kShapes, or by stronger evidence.
  ParameterRole role;

  int64_t count() const { return end - begin; }
};

// An earlier rule that applies instead of a later rule to parameters that both
// rules match.
struct LostTo {
  uint32_t rule = 0;
  int64_t count = 0;
  uint32_t example = 0;  // index of one of the `count` parameters
};

// The reason why a rule matches nothing; kUnknown if no reason is known.
enum class DeadCause : uint8_t { kUnknown, kSeparator, kCase };

struct RuleFacts {
  Sketch sketch;
  bool builtin = false;  // whether the rule is inside the program (in a pack)
  int64_t won = 0;       // number of parameters whose first match is this rule
  int64_t found = 0;     // number of parameters that match the rule's pattern
  // The bytes of the `won` parameters; a parameter of unknown size adds 0.
  int64_t bytes = 0;
  DeadCause cause = DeadCause::kUnknown;  // set only if `found` is 0
  // Index of a group that the rule would match if `cause` were corrected; -1 if
  // `cause` is unknown.
  int32_t would_match = -1;
  std::vector<uint32_t> groups;  // groups whose first match is this rule
  // The earlier rules that apply instead to parameters that this rule matches,
  // in ascending order.
  std::vector<LostTo> lost;
};

class StepFacts;

class Facts {
 public:
  explicit Facts(const LintInputs& inputs);

  const Compiled& compiled() const { return *inputs_.compiled; }
  const Plan& plan() const { return compiled().plan; }
  const Mesh& mesh() const { return compiled().mesh; }
  const Manifest& manifest() const { return compiled().manifest; }
  const std::vector<Rule>& rules() const { return compiled().rules.rules; }
  const ModelConfig* model() const { return inputs_.model; }
  // Returns what the configuration states about towers and about the order of
  // quantised inputs. It is read at the first call, and empty without a model.
  const ConfigParts& config_parts() const;
  const LintInputs& inputs() const { return inputs_; }
  char separator() const { return manifest().separator; }

  // Returns the sizes of the configuration that contradict the parameters'
  // shapes.
  std::span<const Misfit> misfits() const { return misfits_; }
  // Returns facts about the model's step, which are computed at the first call.
  // Returns null if StepFacts::Make returns null, for example because the rules
  // do not describe this model.
  const StepFacts* Step() const;
  // Returns which inputs are given, as a sum of bits of the enumeration Need.
  unsigned has() const { return has_; }

  std::span<const ParameterGroup> groups() const { return groups_; }
  std::span<const uint32_t> Members(const ParameterGroup& group) const {
    return std::span(members_).subspan(group.begin, group.end - group.begin);
  }
  // Returns what the description of the model's family states; may be null.
  const program::Facts* described() const { return manifest().described.get(); }
  // Returns what the description of the model's family states about the
  // dimensions of a parameter of the plan; null if it leaves a dimension open,
  // or has no parameter of this name and shape.
  const program::ParamFacts* Described(uint32_t param) const {
    return described_params_.empty() ? nullptr : described_params_[param];
  }
  const program::ParamFacts* Described(const ParameterGroup& group) const {
    return Described(members_[group.begin]);
  }
  // Returns whether the description states the heads of some parameter.
  bool StatesHeads() const;
  // Returns the scanned layers of the parameter tree, which are found at the
  // first call. `LayerStacks::dims` is indexed by group.
  const LayerStacks& stacks() const;
  // Returns what the shapes of the parameters of each block show, such as
  // matrices that hold several parts. They are found at the first call.
  const BlockFacts& blocks() const;
  // Returns the halves of the adapters. They are found at the first call.
  const AdapterHalves& adapter_halves() const;
  // Returns which parameters belong to a tower. They are found at the first
  // call.
  const Towers& towers() const;
  std::span<const RuleFacts> rule_facts() const { return rule_facts_; }
  // Returns whether a rule is in a file that the user can change. Returns false
  // for -1 and for a rule of a pack (rules inside the program).
  bool IsEditable(int32_t rule) const {
    return rule >= 0 && !rule_facts_[static_cast<size_t>(rule)].builtin;
  }
  const NearestRules& nearest() const { return nearest_; }

  // Returns the facts about the parameters of a group, with weaker evidence
  // than that of ParameterGroup::role too.
  const facts::Group& Known(const ParameterGroup& group) const;
  const ParamLayout& LayoutOf(const ParameterGroup& group) const {
    return plan().layouts[group.layout];
  }
  const TensorType& TypeOf(const ParameterGroup& group) const {
    return plan().types[LayoutOf(group).type];
  }
  const ModeLayout& Train(const ParameterGroup& group) const {
    return LayoutOf(group).modes.front();
  }
  // Returns the rank, or -1 if the shape is unknown.
  int Rank(const ParameterGroup& group) const;
  // These functions return the elements and the bytes of one parameter of the
  // group, and the bytes of all parameters of the group. They return 0 if the
  // number is unknown.
  int64_t Elements(const ParameterGroup& group) const;
  int64_t Bytes(const ParameterGroup& group) const;
  int64_t TotalBytes(const ParameterGroup& group) const;
  int64_t total_bytes() const { return total_bytes_; }

  // Returns the axes that shard a dimension in train. If the spec has no entry
  // for the dimension, returns no axes.
  AxisGroup AxesAt(const ParameterGroup& group, int dim) const;
  // Returns the mesh axis of a layout's placement. A placed parameter is held
  // by the devices at one coordinate of this axis. Returns an empty text if the
  // layout has no placement.
  const std::string& PlacementAxis(const ParamLayout& layout) const;
  // Returns the number of shards of a parameter in train. If the parameter is
  // placed at one coordinate of an axis, the axis's size is a factor of this
  // number.
  int64_t Parts(const ParameterGroup& group) const;
  // Returns whether several devices hold the complete parameters in train: no
  // axis shards them, and they are not placed at one coordinate of an axis.
  bool Replicated(const ParameterGroup& group) const;
  // Returns whether the spec of some mode is illegal and was not corrected.
  bool Illegal(const ParameterGroup& group) const;
  // Returns whether lints can judge the group's specs. The specs must be legal,
  // and a rule must match the group. If no rule matches it, lints can judge the
  // group only if the rules file has the policy `unmatched: replicate`.
  bool Judged(const ParameterGroup& group) const;

  // Returns a rule's spec in a mode, before legalization fits it to a shape.
  // Returns nullopt if the rule takes the spec of another parameter (`like`).
  std::optional<Spec> RuleSpec(int32_t rule, Mode mode = Mode::kTrain) const;
  // Returns all axes of a rule's `spec`, resolved in train. Axes that the mesh
  // lacks are included.
  AxisGroup RequestedAxes(int32_t rule) const;

  // Returns the registration that replaces a built-in logical axis, such as
  // `EXPERT: {rule: fsdp, override: true}`. Returns null if no registration
  // does.
  const Registration* OverrideOf(std::string_view token) const;
  // Returns the mesh axes of a built-in logical axis in train. If a
  // registration replaces the logical axis, returns the registration's axes.
  AxisGroup LogicalAxes(std::string_view token) const;

  // These functions return the places of a rule, of a group's rule and of the
  // mesh. The place of rule -1 is the manifest. A place that is unknown has no
  // position.
  Place RulePlace(int32_t rule) const;
  Place GroupPlace(const ParameterGroup& group) const {
    return RulePlace(group.rule);
  }
  Place MeshPlace() const;

  // Lets a finding list the names of the parameters at these indices. Does
  // nothing if LintInputs::lists_names is false.
  void AddNames(std::span<const uint32_t> params, LintFinding& finding) const;
  std::string Example(const ParameterGroup& group) const;
  // Returns what the traced program shows about the parameter with this index,
  // or null.
  const program::ParamFacts* TracedParam(uint32_t param) const {
    return traced_params_.empty() ? nullptr : traced_params_[param];
  }

  // Returns whether the rules were probably written for other names: most rules
  // match nothing, and few parameters match a rule other than a catch-all.
  bool OtherNaming() const { return other_naming_; }
  // Returns the number of parameters whose first match is not a catch-all.
  int64_t applied() const { return applied_; }
  // Returns what each axis of the mesh is for.
  std::span<const AxisFacts> axes() const { return axes_; }
  // Returns the axes of which it is not known whether devices compute with
  // their shards of weights. Lints do not count them as tensor parallel.
  AxisGroup OpenAxes() const;
  // Counts an axis of OpenAxes() as tensor parallel until the next call; no
  // axis if `axis` is empty.
  void Assume(std::string axis) { assumed_ = std::move(axis); }
  // Returns the axes that shard experts by an axis rule, by specs or by name.
  AxisGroup ExpertAxes() const;
  // Returns the axes that shard the tokens of a step in train.
  AxisGroup TokenAxes() const;
  // TensorAxes returns those axes of `group` that are tensor parallel: each
  // device computes with its shard of a weight (AxisUse::kKept).
  // TensorParts returns the number of shards over these axes.
  int64_t TensorParts(const AxisGroup& group) const;
  AxisGroup TensorAxes(const AxisGroup& group) const;
  // Returns those axes of `group` over which a parameter is still sharded while
  // it is used. Axes over which parameters are gathered before use
  // (AxisUse::kGathered) are left out.
  AxisGroup KeptAxes(const AxisGroup& group) const;

 private:
  void FindGroups();
  void FindMisfits();
  void FindRuleFacts();
  void FindNaming();
  void FindDeadCauses();
  void FindAxes();

  LintInputs inputs_;
  NearestRules nearest_;
  unsigned has_ = 0;
  std::vector<ParameterGroup> groups_;
  std::vector<uint32_t> members_;  // indices of parameters, sorted by group
  std::vector<RuleFacts> rule_facts_;
  int64_t total_bytes_ = 0;
  int64_t applied_ = 0;
  bool other_naming_ = false;
  std::vector<AxisFacts> axes_;
  AxisGroup tensor_axes_;
  AxisGroup gathered_axes_;
  std::string assumed_;
  // Indexed by parameter; empty without a traced program or a description.
  std::vector<const program::ParamFacts*> traced_params_, described_params_;
  std::vector<Misfit> misfits_;
  mutable std::optional<LayerStacks> stacks_;
  mutable std::shared_ptr<const BlockFacts> blocks_;
  mutable std::shared_ptr<const ConfigParts> config_parts_;
  mutable std::shared_ptr<const AdapterHalves> adapter_halves_;
  mutable std::shared_ptr<const Towers> towers_;
  mutable std::shared_ptr<const StepFacts> step_;
  mutable bool step_known_ = false;
};

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_FACTS_H_
