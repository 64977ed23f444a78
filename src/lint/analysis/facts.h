// Room: lint/analysis. The facts of a compiled target that several lints read,
// computed once.
// Includes: source, model, parse, match, resolve, legalize, roles, comm,
// schedule, step, plan.
//
// This file holds the input of lints: the compiled target, and the facts that
// are derived from it.
//
// Parameters that share a layout and a rule, and whose names differ only in
// numbers (of layers and experts), are one parameter group. 90,000 parameters
// are about a hundred groups, and most lints visit only groups.
#ifndef SHARDC_LINT_ANALYSIS_FACTS_H_
#define SHARDC_LINT_ANALYSIS_FACTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lint/analysis/model_fit.h"
#include "lint/analysis/need.h"
#include "lint/analysis/rings.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/nearest.h"
#include "roles/classify.h"
#include "roles/layer_stacks.h"

namespace shardc {

struct PlannedStages;

struct LintInputs {
  const Compiled* compiled = nullptr;  // outlives the facts, never null
  const ModelConfig* model = nullptr;
  Place mesh_place;  // for findings about the mesh; may be empty
  std::optional<int64_t> batch;
  std::optional<int64_t> length;  // tokens of a row, in training and prefill
  std::optional<int64_t> kv_len;
  std::optional<int64_t> memory_bytes;  // overrides the mesh's device
  std::vector<ZigZagRing> rings;        // of the operations that `verify` runs
};

struct ParameterGroup {
  std::string name;     // template: "layers.*.up"
  uint32_t layout = 0;  // index into plan.layouts
  // The first rule that matches, even if the parameters are scalars, to which
  // no rule applies; -1 if no rule matches.
  int32_t rule = -1;
  uint32_t begin = 0;  // range that Facts::Members returns
  uint32_t end = 0;
  ParameterRole role;

  int64_t count() const { return end - begin; }
};

// An earlier rule that is the first match of parameters which a later rule
// matches too.
struct LostTo {
  uint32_t rule = 0;
  int64_t count = 0;
  uint32_t example = 0;  // index of one of these parameters
};

// Why a rule matches nothing, if that is known.
enum class DeadCause : uint8_t { kUnknown, kSeparator, kCase };

struct RuleFacts {
  Sketch sketch;
  bool builtin = false;  // whether it is of a built-in pack
  int64_t won = 0;       // parameters whose first match it is
  int64_t found = 0;     // parameters that its pattern matches
  // Bytes of the parameters counted by `won`; unknown sizes count as 0.
  int64_t bytes = 0;
  DeadCause cause = DeadCause::kUnknown;  // only where `found` is 0
  // Index of a group that the rule would match without `cause`; -1 if none.
  int32_t would_match = -1;
  std::vector<uint32_t> groups;  // indices of groups whose first match it is
  std::vector<LostTo> lost;      // sorted by rule
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
  const LintInputs& inputs() const { return inputs_; }
  char separator() const { return manifest().separator; }

  // Returns the sizes in the configuration that contradict the parameters'
  // shapes.
  std::span<const Misfit> misfits() const { return misfits_; }
  // Returns facts of the model's step, which are computed at the first call.
  // Null if StepFacts::Make returns null, for example if the rules do not
  // describe this model.
  const StepFacts* Step() const;
  // Returns which inputs are given, as bits of Need.
  unsigned has() const { return has_; }

  std::span<const ParameterGroup> groups() const { return groups_; }
  std::span<const uint32_t> Members(const ParameterGroup& group) const {
    return std::span(members_).subspan(group.begin, group.end - group.begin);
  }
  // Returns the scanned layers of the tree, which are found at the first call.
  // Index g of `dims` is group g.
  const LayerStacks& stacks() const;
  std::span<const RuleFacts> rule_facts() const { return rule_facts_; }
  // Returns whether a rule is in a file that the user can change: false for -1
  // and for a rule of a built-in pack.
  bool IsEditable(int32_t rule) const {
    return rule >= 0 && !rule_facts_[static_cast<size_t>(rule)].builtin;
  }
  const NearestRules& nearest() const { return nearest_; }

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
  // Return the elements and the bytes of one parameter of the group, and the
  // bytes of all of its parameters; 0 if they are unknown.
  int64_t Elements(const ParameterGroup& group) const;
  int64_t Bytes(const ParameterGroup& group) const;
  int64_t TotalBytes(const ParameterGroup& group) const;
  int64_t total_bytes() const { return total_bytes_; }

  // Returns the axes of a dimension in the train spec; none if the spec is
  // shorter.
  AxisGroup AxesAt(const ParameterGroup& group, int dim) const;
  // Returns the mesh axis along which a layout places each parameter at one
  // coordinate; empty if it places none.
  const std::string& PlacementAxis(const ParamLayout& layout) const;
  // Returns the number of shards of a parameter in train, including its
  // placement.
  int64_t Parts(const ParameterGroup& group) const;
  // Returns whether the group is replicated on several devices.
  bool Replicated(const ParameterGroup& group) const;
  // Returns whether the spec of some mode is illegal and was not corrected.
  bool Illegal(const ParameterGroup& group) const;
  // Returns whether lints can judge the group's specs: they are legal, and
  // either a rule matches or the policy is to replicate unmatched parameters.
  bool Judged(const ParameterGroup& group) const;

  // Returns a rule's spec in a mode, before shapes are considered; nullopt if
  // the rule has no spec of its own (`like`).
  std::optional<Spec> RuleSpec(int32_t rule, Mode mode = Mode::kTrain) const;
  // Returns all axes of a rule's `spec`, resolved in train, including axes that
  // the mesh lacks.
  AxisGroup RequestedAxes(int32_t rule) const;

  // Returns the registration that replaces a built-in logical axis, such as
  // `EXPERT: {rule: fsdp, override: true}`; null if there is none.
  const Registration* OverrideOf(std::string_view token) const;
  // Returns the mesh axes of a built-in logical axis in train, which may be
  // those of its override.
  AxisGroup LogicalAxes(std::string_view token) const;

  // Return the places of a rule (the manifest for rule -1), of a group's rule
  // and of the mesh; without a position if the place is unknown.
  Place RulePlace(int32_t rule) const;
  Place GroupPlace(const ParameterGroup& group) const {
    return RulePlace(group.rule);
  }
  Place MeshPlace() const;

  std::vector<std::string> Names(const ParameterGroup& group) const;
  std::string Example(const ParameterGroup& group) const;

  // Returns whether the rules were probably written for other names: most of
  // them match nothing, and few parameters have a first match other than a
  // catch-all.
  bool OtherNaming() const { return other_naming_; }
  // Returns the number of parameters whose first match is not a catch-all.
  int64_t applied() const { return applied_; }
  // Return the tensor-parallel axes of `group`, and the number of parts that
  // they make. An axis is tensor parallel if an axis rule for tensor
  // parallelism, heads, KV heads, MLP or vocabulary names it.
  int64_t TensorParts(const AxisGroup& group) const;
  AxisGroup TensorAxes(const AxisGroup& group) const;
  // Returns the axes of `group` over which a parameter stays sharded while it
  // is used: all but the data axes (dp, fsdp, sp). A data axis that is also
  // tensor parallel is returned too.
  AxisGroup KeptAxes(const AxisGroup& group) const;

 private:
  void FindGroups();
  void FindMisfits();
  void OrientGroups();
  void FindRuleFacts();
  void FindNaming();
  void FindDeadCauses();

  LintInputs inputs_;
  NearestRules nearest_;
  unsigned has_ = 0;
  std::vector<ParameterGroup> groups_;
  std::vector<uint32_t> members_;  // parameters by group
  std::vector<RuleFacts> rule_facts_;
  int64_t total_bytes_ = 0;
  int64_t applied_ = 0;
  bool other_naming_ = false;
  AxisGroup tensor_axes_;
  AxisGroup gathered_axes_;
  std::vector<Misfit> misfits_;
  mutable std::optional<LayerStacks> stacks_;
  mutable std::shared_ptr<const StepFacts> step_;
  mutable bool step_known_ = false;
};

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_FACTS_H_
