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

#include "lint/analysis/facts.h"
#include "lint/analysis/topic.h"
#include "model/axis_rules.h"
#include "model/model_description.h"
#include "plan/lowered_step.h"
#include "source/finding.h"
#include "step/lines.h"
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

// Returns the mesh axis over which the stages of the pipeline are divided, or
// an empty text if no stages are declared.
std::string StageAxis(const Facts& facts);
Place StagesPlace(const Facts& facts);

// Returns the end of a message that states how many bytes a device sends. If
// the stages of a pipeline are on several ranks, each number is the sum over
// the ranks: ", each added over the 4 ranks of the pipeline". Otherwise the
// text is empty.
std::string AddedOverRanks(const Facts& facts);

// TimesText returns a factor as text: "1.21". PartText returns a percentage as
// text: "27.3 %".
std::string TimesText(double times);
std::string PartText(double part);

// A division of layers in which one stage takes clearly longer than the mean.
struct UnevenStages {
  int32_t stage = 0;   // the stage that takes longest
  double times = 1;    // its time as a multiple of the mean
  int64_t layers = 0;  // number of layers in `stage`
  // The number of layers of each stage in the best division of the layers. It
  // is the division whose longest stage takes the least time, which is
  // `better_times` times the mean.
  std::vector<int64_t> better;
  double better_times = 1;
};
// Returns the uneven stages of the target's division. Returns nullopt if the
// target declares no stages, if the stages are even, if no other division is
// clearly better, if a tensor has scanned layers, or if the search would take
// too long.
std::optional<UnevenStages> UnevenStagesOf(const Facts& facts);

// A schedule whose bubble (idle time of the ranks) is large, if all tasks take
// equally long.
struct LargeBubble {
  double part = 0;  // bubble as a fraction of the step's time
  std::string schedule;
  int32_t ranks = 0, microbatches = 0;
  // A schedule with a clearly smaller bubble that needs no more memory for
  // activations. Empty if there is no such schedule. `better_part` is its
  // bubble.
  std::string better;
  double better_part = 0;
  // The number of activations that the fullest rank holds at once. Each
  // activation belongs to one stage and one micro-batch.
  int64_t held = 0;
};
// Returns the schedule of the target. Returns nullopt if the target declares no
// stages on two or more ranks, if the bubble is small, if the number of
// micro-batches is unknown, or if the schedule has too many tasks.
std::optional<LargeBubble> LargeBubbleOf(const Facts& facts);

// A schedule with several stages on a rank whose number of micro-batches is no
// multiple of the ranks.
struct UnevenRounds {
  std::string schedule;
  int32_t stages = 0, ranks = 0, microbatches = 0;
};
// Returns the schedule of the target. Returns nullopt if the target declares no
// such schedule, if the number of micro-batches is unknown, or if neither
// Megatron-LM nor MaxText has the schedule.
std::optional<UnevenRounds> UnevenRoundsOf(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_STEP_FACTS_H_
