// The stages of a pipeline whose step `verify step` proves.
#ifndef SHARDC_CLI_VERIFY_STAGES_H_
#define SHARDC_CLI_VERIFY_STAGES_H_

#include <optional>

#include "cli/stage_flags.h"
#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// The most micro-batches of which a step is run.
inline constexpr int64_t kMostMicrobatches = 64;

struct StepDivision {
  const StageFlags& flags;
  bool microbatches_given = false;             // by a flag
  const StageDeclaration* declared = nullptr;  // null without
  bool trains = true;  // stages are those of a training step
  int64_t usual_batch = 0;
};

// Sets the batch and the micro-batches of the request, and divides the model as
// `cost` does, with the same refusals, if a flag, the rules or the target give
// stages. Returns false, and adds findings, also if a step of stages cannot do
// what the request wants as well: one part alone, all at real sizes, several
// processes.
bool DivideStep(const StepDivision& division, const Compiled& compiled,
                const std::optional<ModelConfig>& model,
                verify::StepRequest& request,
                std::optional<verify::StageSettings>& out, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_STAGES_H_
