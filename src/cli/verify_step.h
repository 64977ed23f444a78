// Functions that several commands share to lower a complete step of a model.
// The commands are `shardc verify step`, `shardc explain --ops`, and `shardc
// check`, which compares the step with a committed one.
#ifndef SHARDC_CLI_VERIFY_STEP_H_
#define SHARDC_CLI_VERIFY_STEP_H_

#include <cstdint>
#include <optional>

#include "cli/cost_flags.h"
#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// Returns whether a rules file has a `model:` section, which describes the
// model. If none has, adds a finding.
bool HasDescription(const RuleSet& rules, const Manifest& manifest,
                    Findings& findings);
inline bool HasDescription(const Compiled& compiled, Findings& findings) {
  return HasDescription(compiled.rules, compiled.manifest, findings);
}
// Returns a request for a step at the sizes of the model, not at the smaller
// sizes of a proof. If `batch` is not set, the batch is two samples per device.
verify::StepRequest UsualStep(const Compiled& compiled,
                              const std::optional<ModelConfig>& model,
                              std::optional<int64_t> batch);

// The largest number of micro-batches that a verified step may have.
inline constexpr int64_t kMostMicrobatches = 64;

struct StepDivision {
  const StageFlags& flags;
  // True if a flag gives the number of micro-batches.
  bool microbatches_given = false;
  // True if the step trains. If it does not, stages of files are ignored.
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
bool DivideStep(const StepDivision& division, const StagedTarget& target,
                verify::StepRequest& request,
                std::optional<verify::StageSettings>& out, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_STEP_H_
