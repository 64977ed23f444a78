// A target's step from its rules to a program.
#ifndef SHARDC_PLAN_LOWERED_STEP_H_
#define SHARDC_PLAN_LOWERED_STEP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/mesh.h"
#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "step/accumulate.h"
#include "step/attention.h"
#include "step/build.h"
#include "step/choose.h"
#include "step/constraints.h"
#include "step/program.h"
#include "step/remat.h"
#include "step/roles.h"

namespace shardc {

struct StepInputs {
  const Compiled* compiled = nullptr;
  const ModelConfig* config = nullptr;  // may be null
  Mode mode = Mode::kTrain;
  int64_t batch = 0, length = 0;
  int64_t element_bytes = 2;
  std::optional<step::Policy> policy = {};  // else the mode's own
  bool keep_gathered = false;
  step::Remat remat = {};    // in training
  int64_t microbatches = 1;  // in training; parts of the batch
  step::Reduction reduction = step::Reduction::kOnce;
  const step::Roles* roles = nullptr;  // where they are known already
  // In place of what the axis rules say of activations.
  std::vector<step::ShardingConstraintOverride> constraints = {};
};
step::Policy StepPolicyOf(const StepInputs& inputs);
std::string_view StepPolicyName(step::Policy policy);  // "cost"
// At real sizes; without a batch two rows a device.
StepInputs UsualStepInputs(const Compiled& compiled, const ModelConfig* config,
                           std::optional<int64_t> batch);

// A graph, its sizes and what it becomes.
struct LoweredStep {
  step::StepModel model = {};
  step::Sizes sizes = {};
  std::vector<Spec> specs = {};  // by parameter
  std::optional<step::Program> program = {};
};

// Without a program; of the layers only those named, or all; attention in its
// form. Nothing after findings.
std::optional<LoweredStep> BuildStep(const StepInputs& inputs,
                                     const std::vector<int32_t>& layers,
                                     Findings& findings,
                                     const step::AttentionForm& form = {});
std::optional<step::Program> LowerStep(const StepInputs& inputs,
                                       const LoweredStep& of, const Mesh& mesh,
                                       std::string& why);

// Whether a layer is of the encoder, whose layers begin at `encoder`; -1: there
// is none.
inline bool IsEncoderLayer(int32_t layer, int32_t encoder) {
  return encoder >= 0 && layer >= encoder;
}
// "layer 3", of an encoder "encoder 3", "model" or "optimizer".
std::string StepPartName(const step::Graph& graph, const step::Op& op);
std::string StepOpName(const step::Op& op);
// "[b,t,d]"
std::string StepLabelsText(const step::Graph& graph, step::ValueId value);

}  // namespace shardc

#endif  // SHARDC_PLAN_LOWERED_STEP_H_
