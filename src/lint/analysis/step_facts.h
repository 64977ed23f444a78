// The model's step, where the rules describe the model: roles of parameters,
// and programs of a layer or two of each kind, which stand for all. No numbers.
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
  std::map<int32_t, int64_t> stands_for;  // a layer: how many, itself included
  std::vector<char> weight;               // by value: made of parameters only

  const step::Graph& graph() const { return step.model.graph; }
  const step::Program& program() const { return *step.program; }
  // How often an op's like is in the whole step.
  int64_t Times(const step::Op& op) const;
  // By a device, in the whole step and for one instruction of each layer.
  int64_t Sent() const { return Sent(program()); }
  int64_t Sent(const step::Program& program) const;
  int64_t Sent(const step::Instruction& instruction) const;
  // With other specs of parameters, or other anchors; nothing where that
  // cannot be lowered.
  std::optional<int64_t> SentWith(
      const std::vector<Spec>& specs,
      const std::vector<step::ShardingConstraintOverride>& constraints = {})
      const;
};

// Why a step has no program.
struct StepRefusal {
  Mode mode = Mode::kTrain;
  Place place;
  std::string message;
};

class StepFacts {
 public:
  // Nothing where no file describes the model, or describes another one: most
  // parameters have no role.
  static std::unique_ptr<const StepFacts> Make(const Facts& facts);

  const ModelDescription& description() const { return *description_; }
  // Stands in a pack of this program.
  bool builtin() const;
  const step::Roles& roles() const { return roles_; }
  // Null where that mode is not planned, or there is no program.
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
  std::vector<uint32_t> group_of_;  // by parameter
  std::map<int32_t, int64_t> stands_for_;
  std::vector<std::unique_ptr<ModeStep>> modes_;
  std::vector<StepRefusal> refusals_;
};

// One finding a group of parameters of which this is wrong, joined where it is
// the same.
void TellRoleFault(const Facts& facts, step::RoleFault fault, const Code& code,
                   const std::string& help, FindingSink& sink);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_STEP_FACTS_H_
