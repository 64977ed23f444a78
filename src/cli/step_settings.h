// The flags of `verify step`, and the settings into which they are parsed.
#ifndef SHARDC_CLI_STEP_SETTINGS_H_
#define SHARDC_CLI_STEP_SETTINGS_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/cost_flags.h"
#include "cli/ranks.h"
#include "cli/stage_flags.h"
#include "cli/step_memory.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

struct StepFlags {
  InputFlags inputs;
  Strings modes, operations, dtypes;
  std::string batch, length, policy, part, remat, microbatches, reduce, seed,
      dump;
  // A traced program to prove in place of the model that the rules describe, a
  // plan to prove it under, and a program whose results must be the same.
  std::string program, plan, reference;
  StepDtypeFlags step_dtypes;
  bool keep_gathered = false, reduce_each = false, full = false;
  StageFlags stages;
};

struct StepSettings {
  std::vector<Mode> modes;
  std::vector<Dtype> dtypes;
  StepDtypes step_dtypes;
  verify::StepRequest request;
};

// Returns the settings of the flags. Returns nullopt after findings, for
// example about a flag that has no effect in the given modes.
std::optional<StepSettings> ReadStepSettings(const StepFlags& flags,
                                             const Target& target,
                                             const Common& common,
                                             const Ranks& ranks,
                                             Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_STEP_SETTINGS_H_
