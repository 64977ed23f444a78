// Computes facts about the model's step, if the rules describe the model. The
// facts are the roles of parameters, and the lowered program of the step, which
// is not executed. To save time, the program has only one or two layers of each
// class of equal layers. They represent all layers of the class.
#ifndef SHARDC_LINT_ANALYSIS_STEP_FACTS_H_
#define SHARDC_LINT_ANALYSIS_STEP_FACTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lint/analysis/topic.h"
#include "model/axis_rules.h"
#include "model/model_description.h"
#include "plan/lowered_step.h"
#include "source/finding.h"
#include "step/formulas.h"
#include "step/program.h"
#include "step/roles.h"

namespace shardc {

class Facts;
struct ParameterGroup;

struct ModeStep {
  StepInputs inputs;
  LoweredStep step;
  // The number of layers that a lowered layer represents, keyed by layer.
  std::map<int32_t, int64_t> stands_for;
  // Indexed by ValueId: 1 if the value depends only on parameters, else 0.
  std::vector<char> weight;

  const step::Graph& graph() const { return step.model.graph; }
  const step::Program& program() const { return *step.program; }
  // Returns how often the op occurs in the step of the complete model. The op
  // of one lowered layer represents the ops of other layers as well.
  int64_t Times(const step::Op& op) const;
  // These functions return the bytes that a device sends: in the complete step,
  // in the step of another program, and for one instruction in one layer.
  int64_t Sent() const { return Sent(program()); }
  int64_t Sent(const step::Program& program) const;
  int64_t Sent(const step::Instruction& instruction) const;
  // Returns the bytes that a device would send with other specs of parameters
  // or with other sharding constraints. Returns nullopt if that step cannot be
  // lowered.
  std::optional<int64_t> SentWith(
      const std::vector<Spec>& specs,
      const std::vector<step::ShardingConstraintOverride>& constraints = {})
      const;
};

// The reason why the step of a mode could not be built or lowered.
struct StepRefusal {
  Mode mode = Mode::kTrain;
  Place place;
  std::string message;
};

class StepFacts {
 public:
  // Returns null if no file describes the model, if shapes or the model's
  // configuration are unknown, or if the description cannot be evaluated. Also
  // returns null if most parameters have no role, because the description then
  // is of another model.
  static std::unique_ptr<const StepFacts> Make(const Facts& facts);

  const ModelDescription& description() const { return *description_; }
  // Returns whether a pack (rules inside the program), and not the user's file,
  // describes the model.
  bool builtin() const;
  const step::Roles& roles() const { return roles_; }
  // Returns the step of a mode. Returns null if the plan or the model's
  // description does not have the mode, or if the step could not be lowered
  // (refusals()).
  const ModeStep* Find(Mode mode) const;
  const std::vector<StepRefusal>& refusals() const { return refusals_; }
  const ParameterGroup& GroupOf(int64_t row) const;

 private:
  explicit StepFacts(const Facts& facts) : facts_(facts) {}
  bool FindRoles(step::Formulas& formulas);
  bool MostHaveRoles() const;
  void FindSample(step::Formulas& formulas);
  void AddMode(Mode mode);

  const Facts& facts_;
  const ModelDescription* description_ = nullptr;
  step::Roles roles_;
  std::vector<uint32_t> group_of_;  // index of the group, indexed by parameter
  std::map<int32_t, int64_t> stands_for_;
  std::vector<std::unique_ptr<ModeStep>> modes_;
  std::vector<StepRefusal> refusals_;
};

// Reports one finding for each parameter group whose role has this fault. A
// role is what a parameter does in the model, such as `q`.
void ReportRoleFault(const Facts& facts, step::RoleFault fault,
                     const Code& code, const std::string& help,
                     FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_STEP_FACTS_H_
