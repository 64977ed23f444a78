// Room: lint/analysis. The facts of a compiled target that several lints read,
// computed once.
// Includes: source, model, resolve, legalize, comm, step, plan.
//
// What lints read: the compiled target and what is derived from it once.
//
// Parameters that are alike but for digits in their path (layers, experts)
// and share a layout are one parameter group: 90,000 parameters are some
// hundred groups, and most lints walk groups only.
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
#include "lint/analysis/roles.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/nearest.h"

namespace shardc {

struct LintInputs {
  const Compiled* compiled = nullptr;  // outlives the facts, never null
  const ModelConfig* model = nullptr;
  SourceRef mesh_source;  // for findings about the mesh; may be null
  std::optional<int64_t> batch;
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
  GroupRole role;

  int64_t count() const { return end - begin; }
};

// An earlier rule that took parameters which a rule's pattern is found in.
struct LostTo {
  uint32_t rule = 0;
  int64_t count = 0;
  uint32_t example = 0;  // parameter
};

// Why a rule matches nothing, where that can be told.
enum class DeadCause : uint8_t { kUnknown, kSeparator, kCase };

struct RuleFacts {
  Sketch sketch;
  bool builtin = false;                   // stands in a pack of this program
  int64_t won = 0;                        // parameters it is the first match of
  int64_t found = 0;                      // parameters its pattern is found in
  int64_t bytes = 0;                      // of those won, where known
  DeadCause cause = DeadCause::kUnknown;  // only where `found` is 0
  int32_t would_match = -1;      // a group it would match but for the cause
  std::vector<uint32_t> groups;  // won
  std::vector<LostTo> lost;      // by rule
};

// Numbers of this type may hold several weights, in quantised checkpoints.
bool MayPack(Dtype dtype);

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

  // What the configuration says and the parameters deny.
  std::span<const Misfit> misfits() const { return misfits_; }
  // Of the model's step, found when first asked for; null where the rules do
  // not describe this model, or its configuration is not known.
  const StepFacts* Step() const;
  // Bits of Need that the inputs meet.
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
  // Rank, or -1 when the shape is unknown.
  int Rank(const ParameterGroup& group) const;
  // Of one parameter and of the whole group, 0 when unknown.
  int64_t Elements(const ParameterGroup& group) const;
  int64_t Bytes(const ParameterGroup& group) const;
  int64_t TotalBytes(const ParameterGroup& group) const;
  int64_t total_bytes() const { return total_bytes_; }

  // Axes of a dimension of the train spec; none past its end.
  AxisGroup AxesAt(const ParameterGroup& group, int dim) const;
  // The axis along which a placed parameter of this layout has its coordinate.
  const std::string& PlacementAxis(const ParamLayout& layout) const;
  // Shards a parameter is cut into in train, its placement included.
  int64_t Parts(const ParameterGroup& group) const;
  // On every device whole, though there are several.
  bool Replicated(const ParameterGroup& group) const;
  // Some mode's spec is not legal and stands uncorrected.
  bool Illegal(const ParameterGroup& group) const;
  // Legal, and matched or replicated by policy: its spec is what a device
  // gets.
  bool Judged(const ParameterGroup& group) const;

  // A rule's spec in a mode before shapes; nothing for `like`.
  std::optional<Spec> RuleSpec(int32_t rule, Mode mode = Mode::kTrain) const;
  // All axes that it asks for in train, also those that the mesh lacks.
  AxisGroup AxesAsked(int32_t rule) const;

  // Places; empty where there is none.
  Place RulePlace(int32_t rule) const;
  Place GroupPlace(const ParameterGroup& group) const {
    return RulePlace(group.rule);
  }
  Place MeshPlace() const;

  std::vector<std::string> Names(const ParameterGroup& group) const;
  std::string Example(const ParameterGroup& group) const;

  // Nothing but catch-alls applies to (almost) the whole tree.
  bool OtherNaming() const { return other_naming_; }
  int64_t applied() const { return applied_; }  // by rules not catch-all
  // The part of a group that is tensor parallel: what an axis rule for
  // heads, MLP or vocabulary names. The rest is gathered before use.
  int64_t TensorParts(const AxisGroup& group) const;
  AxisGroup TensorAxes(const AxisGroup& group) const;
  // The axes over which a parameter stays split while it is used: all but
  // those of the data (dp, fsdp, sp), unless an axis is tensor parallel too.
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
