// A target's step from its rules to a program.
#ifndef SHARDC_VERIFY_STEP_LOWERED_STEP_H_
#define SHARDC_VERIFY_STEP_LOWERED_STEP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/operations/operation.h"
#include "model/dtype.h"
#include "model/mesh.h"
#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "step/accumulate.h"
#include "step/build.h"
#include "step/choose.h"
#include "step/program.h"
#include "step/remat.h"

namespace shardc::verify {

struct StepRequest {
  const Compiled* compiled = nullptr;
  const ModelConfig* config = nullptr;  // may be null
  Mode mode = Mode::kTrain;
  const exec::Operation* operation = nullptr;  // null: attention as described
  int64_t batch = 0, length = 0;
  Dtype dtype = Dtype::kF64;                // of the proof
  int64_t element_bytes = 2;                // of the report's bytes
  std::optional<step::Policy> policy = {};  // else the mode's own
  bool keep_gathered = false;
  step::Remat remat = {};    // in training
  int64_t microbatches = 1;  // in training; parts of the batch
  step::Reduction reduction = step::Reduction::kOnce;
  bool numbers = true;  // run it; else form, static checks and bytes only
  uint64_t seed = 0;
  int threads = 1;
};
step::Policy PolicyOf(const StepRequest& request);
std::string_view PolicyName(step::Policy policy);  // "cost"

// A graph, its sizes and what it becomes.
struct LoweredStep {
  step::StepModel model = {};
  step::Sizes sizes = {};
  std::vector<Spec> specs = {};  // by parameter
  std::optional<step::Program> program = {};
};

// Without a program; of the layers only those named, or all; attention as the
// operation does it on the request's mesh. Nothing after findings.
std::optional<LoweredStep> BuildStep(const StepRequest& request,
                                     const std::vector<int32_t>& layers,
                                     Findings& findings,
                                     const step::AttentionForm& form = {});
std::optional<step::Program> LowerStep(const StepRequest& request,
                                       const LoweredStep& of, const Mesh& mesh,
                                       std::string& why);

// "layer 3", "model" or "optimizer".
std::string PartOf(const step::Op& op);
std::string StepOpName(const step::Op& op);
// "[b,t,d]"
std::string LabelsText(const step::Graph& graph, step::ValueId value);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_LOWERED_STEP_H_
