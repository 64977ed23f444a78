// Room: lint/analysis. The facts of a compiled target that several lints read,
// computed once.
// Includes: source, model, resolve, legalize, roles, comm, schedule, step,
// plan.
//
// What lints read: the compiled target, and facts that are derived from it
// once.
//
// Parameters whose names differ in numbers only (layers, experts) and that
// share a layout are one parameter group: 90,000 parameters are a hundred
// groups, and most lints visit groups only.
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

namespace shardc {

struct PlannedStages;

struct LintInputs {
  const Compiled* compiled = nullptr;  // outlives the facts, never null
  const ModelConfig* model = nullptr;
  SourceRef mesh_source;  // for findings about the mesh; may be null
  std::optional<int64_t> batch;
  std::optional<int64_t> length;  // tokens of a row, in training and prefill
  std::optional<int64_t> kv_len;
  std::optional<int64_t> memory_bytes;  // wins over the mesh's device
  std::vector<ZigZagRing> rings;        // that the target verifies
};

struct ParameterGroup {
  std::string name;     // whole digit parts as `*`
  uint32_t layout = 0;  // index into plan.layouts
  int32_t rule = -1;    // first match, also of scalars; -1: none
  uint32_t begin = 0;   // range into Facts::GroupParams
  uint32_t end = 0;
  ParameterRole role;

  int64_t count() const { return end - begin; }
};

// An earlier rule that wins parameters which a later rule matches too.
struct LostTo {
  uint32_t rule = 0;
  int64_t count = 0;
  uint32_t example = 0;  // parameter
};

// Why a rule matches nothing, if that is known.
enum class DeadCause : uint8_t { kUnknown, kSeparator, kCase };

struct RuleFacts {
  Sketch sketch;
  bool builtin = false;                   // of a built-in pack
  int64_t won = 0;                        // parameters whose first match it is
  int64_t found = 0;                      // parameters that its pattern matches
  int64_t bytes = 0;                      // of those won, if known
  DeadCause cause = DeadCause::kUnknown;  // only where `found` is 0
  int32_t would_match = -1;      // a group that it matches without the cause
  std::vector<uint32_t> groups;  // won
  std::vector<LostTo> lost;      // by rule
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

  // Sizes of the configuration that contradict the parameters.
  std::span<const Misfit> misfits() const { return misfits_; }
  // Facts of the model's step, computed at the first call; null if the rules do
  // not describe this model or its configuration is unknown.
  const StepFacts* Step() const;
  // Bits of Need of the inputs that are given.
  unsigned has() const { return has_; }

  std::span<const ParameterGroup> groups() const { return groups_; }
  std::span<const uint32_t> Members(const ParameterGroup& group) const {
    return std::span(members_).subspan(group.begin, group.end - group.begin);
  }
  std::span<const RuleFacts> rule_facts() const { return rule_facts_; }
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
  // The rank, or -1 if the shape is unknown.
  int Rank(const ParameterGroup& group) const;
  // Elements and bytes of one parameter of the group, and the bytes of all of
  // its parameters; 0 if unknown.
  int64_t Elements(const ParameterGroup& group) const;
  int64_t Bytes(const ParameterGroup& group) const;
  int64_t TotalBytes(const ParameterGroup& group) const;
  int64_t total_bytes() const { return total_bytes_; }

  // Axes of a dimension of the train spec; none past its end.
  AxisGroup AxesAt(const ParameterGroup& group, int dim) const;
  // The mesh axis along which a layout places each parameter at one coordinate.
  const std::string& PlacementAxis(const ParamLayout& layout) const;
  // The number of shards of a parameter in train, its placement included.
  int64_t Parts(const ParameterGroup& group) const;
  // Whether the group is replicated on several devices.
  bool Replicated(const ParameterGroup& group) const;
  // Whether the spec of some mode is illegal and was not corrected.
  bool Illegal(const ParameterGroup& group) const;
  // Whether lints can judge the group's specs: they are legal, and either a
  // rule matches or the policy replicates unmatched parameters.
  bool Judged(const ParameterGroup& group) const;

  // A rule's spec in a mode before shapes are considered; empty for `like`.
  std::optional<Spec> RuleSpec(int32_t rule, Mode mode = Mode::kTrain) const;
  // All axes of a rule's spec in train, also those that the mesh lacks.
  AxisGroup RequestedAxes(int32_t rule) const;

  // The places of a rule, of a group's rule and of the mesh; empty if unknown.
  Place RulePlace(int32_t rule) const;
  Place GroupPlace(const ParameterGroup& group) const {
    return RulePlace(group.rule);
  }
  Place MeshPlace() const;

  std::vector<std::string> Names(const ParameterGroup& group) const;
  std::string Example(const ParameterGroup& group) const;

  // Whether only catch-alls apply to almost all parameters.
  bool OtherNaming() const { return other_naming_; }
  int64_t applied() const {
    return applied_;
  }  // to rules other than catch-alls
  // Tensor parallel axes are those that an axis rule for heads, MLP or
  // vocabulary names; weights are gathered over all other axes before use.
  // Returns the product of the sizes of those in `group`, and the axes
  // themselves.
  int64_t TensorParts(const AxisGroup& group) const;
  AxisGroup TensorAxes(const AxisGroup& group) const;
  // The axes over which a parameter stays split in use: all but data axes (dp,
  // fsdp, sp), unless such an axis is tensor parallel as well.
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
  mutable std::shared_ptr<const StepFacts> step_;
  mutable bool step_known_ = false;
};

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_FACTS_H_
