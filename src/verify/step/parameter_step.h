// How a step uses one parameter: the ops that read it, the collectives on it
// and on its gradient, and their bytes.
#ifndef SHARDC_VERIFY_STEP_PARAMETER_STEP_H_
#define SHARDC_VERIFY_STEP_PARAMETER_STEP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/collective.h"
#include "model/spec.h"
#include "model/step_graph.h"
#include "plan/lowered_step.h"

namespace shardc::verify {

// An op that reads the parameter, or a value that depends on the parameter
// only.
struct ParameterUse {
  step::Phase phase = step::Phase::kForward;
  std::string part, op;
  std::string sharding;  // sharding of the operand that is read: "n:tp"
  std::string result;    // "[b,t,n,h] b:fsdp n:tp"
};

struct ParameterMove {
  step::Phase phase = step::Phase::kForward;
  std::string part, op;
  bool gradient = false;  // whether it is on the gradient, not the parameter
  std::string specs;      // "d:fsdp n:tp -> n:tp"
  Collective collective = Collective::kAllGather;
  AxisGroup axes = {};
  int64_t bytes = 0;  // bytes that the busiest device sends
};

struct ParameterStep {
  Mode mode = Mode::kTrain;
  Mesh mesh = {};
  int64_t batch = 0, length = 0;
  step::Policy policy = step::Policy::kPublished;
  std::string unsupported = {};  // why there is no program
  bool takes_part = false;       // the step has the parameter
  std::string role = {};         // "q of layer 3"
  std::string labels = {};       // "[(n h),d]"
  std::string sharding = {};     // "(n h):tp d:fsdp"
  bool stacked = false;          // one of several tensors with this role
  std::string gradient = {};     // the gradient's sharding before it is reduced
  std::vector<ParameterUse> uses = {};
  std::vector<ParameterMove> moves = {};

  int64_t Sent() const;
};

// Finds the uses of the tensor at a row of the manifest. Returns nullopt after
// findings.
std::optional<ParameterStep> FollowParameter(const StepInputs& request,
                                             int64_t row, Findings& findings);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_PARAMETER_STEP_H_
