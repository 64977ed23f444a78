// How a step uses one parameter: the ops that read it, the collectives on it
// and on its gradient, and their bytes.
#ifndef SHARDC_VERIFY_STEP_PARAMETER_STEP_H_
#define SHARDC_VERIFY_STEP_PARAMETER_STEP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/collective.h"
#include "model/mesh.h"
#include "model/step_graph.h"
#include "plan/lowered_step.h"

namespace shardc::verify {

// An op that reads the parameter, or a value that depends only on the
// parameter.
struct ParameterUse {
  step::Phase phase = step::Phase::kForward;
  std::string part, op;
  // Sharding of the operand that the op reads, such as "n:tp".
  std::string sharding;
  // Labels and sharding of the result, "[b,t,n,h] b:fsdp n:tp".
  std::string result;
};

struct ParameterMove {
  step::Phase phase = step::Phase::kForward;
  std::string part, op;
  // True if the collective runs on the parameter's gradient, false if it runs
  // on the parameter.
  bool gradient = false;
  std::string specs;  // sharding before and after, "d:fsdp n:tp -> n:tp"
  Collective collective = Collective::kAllGather;
  AxisGroup axes = {};
  int64_t bytes = 0;  // bytes sent by the device that sends most
};

struct ParameterStep {
  Mode mode = Mode::kTrain;
  Mesh mesh = {};
  int64_t batch = 0, length = 0;
  step::Policy policy = step::Policy::kPublished;
  std::string unsupported = {};  // reason why there is no program, or empty
  bool takes_part = false;       // true: the step has the parameter
  std::string role = {};         // such as "q of layer 3"
  std::string labels = {};       // dimension labels, such as "[(n h),d]"
  std::string sharding = {};     // such as "(n h):tp d:fsdp"
  bool stacked = false;          // true: the parameter stacks several tensors
  std::string gradient = {};     // the gradient's sharding before it is reduced
  std::vector<ParameterUse> uses = {};
  std::vector<ParameterMove> moves = {};

  int64_t Sent() const;
};

// Returns how the step uses the tensor in row `row` of the manifest. Returns
// nullopt after an error was added to `findings`.
std::optional<ParameterStep> FollowParameter(const StepInputs& request,
                                             int64_t row, Findings& findings);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_PARAMETER_STEP_H_
