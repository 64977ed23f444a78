// Estimates the memory of a step that is verified, with the cost model of
// `cost`.
#ifndef SHARDC_CLI_STEP_MEMORY_H_
#define SHARDC_CLI_STEP_MEMORY_H_

#include <optional>
#include <string>

#include "cli/option.h"
#include "model/dtype.h"
#include "model/project.h"
#include "source/finding.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// The options of a step's dtypes and of its ZeRO stage. They have the same
// meaning as in `cost`.
struct StepDtypeFlags {
  std::string activations, gradients, cache, zero;
};
struct StepDtypes {
  Dtype activations = Dtype::kBF16, cache = Dtype::kBF16;
  std::optional<Dtype> gradients = {};
};
Options StepDtypeOptions(StepDtypeFlags& flags);
// Sets the dtype sizes and the ZeRO stage of the request, and returns the
// dtypes. Returns nullopt after findings.
std::optional<StepDtypes> ReadStepDtypes(const StepDtypeFlags& flags,
                                         verify::StepRequest& request,
                                         Findings& findings);

// Returns the memory of the request's step, or nullopt if `cost` cannot
// estimate it.
std::optional<verify::StepMemory> MemoryOfStep(
    const verify::StepRequest& request, const StepDtypes& dtypes,
    const std::optional<ModelConfig>& model);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_STEP_MEMORY_H_
