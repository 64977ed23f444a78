// Divides a model into the stages of a pipeline, so that `shardc verify step`
// can verify a training step of the pipeline.
#ifndef SHARDC_CLI_VERIFY_STAGES_H_
#define SHARDC_CLI_VERIFY_STAGES_H_

#include <optional>

#include "cli/stage_flags.h"
#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// The largest number of micro-batches that a verified step may have.
inline constexpr int64_t kMostMicrobatches = 64;

struct StepDivision {
  const StageFlags& flags;
  // True if a flag gives the number of micro-batches.
  bool microbatches_given = false;
  // The stages that the rules or the target declare; null if there are none.
  const StageDeclaration* declared = nullptr;
  // True if the step trains. If it does not, declared stages are ignored.
  bool trains = true;
  int64_t usual_batch = 0;
};

// Sets the batch and the micro-batches of the request. If a flag, the rules or
// the target declare stages, divides the model into them as `cost` does and
// sets `out`. Returns false after a finding about one of these:
// - too many micro-batches, or a batch that the micro-batches do not divide
// - stages that `cost` refuses
// - a setting that a step in stages does not support: one part of the step
//   (`--part`), real sizes (`--full`), or several processes
bool DivideStep(const StepDivision& division, const Compiled& compiled,
                const std::optional<ModelConfig>& model,
                verify::StepRequest& request,
                std::optional<verify::StageSettings>& out, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_STAGES_H_
