// The flags of `cost` and `fit`: how a model is trained or served, and on
// what.
#ifndef SHARDC_CLI_COST_FLAGS_H_
#define SHARDC_CLI_COST_FLAGS_H_

#include <optional>
#include <string>

#include "cli/inputs.h"
#include "cost/settings.h"
#include "source/finding.h"
#include "step/remat.h"

namespace shardc::cli {

struct CostFlags {
  InputFlags inputs;
  std::string mode = "train";
  std::string batch, length, kv_length, microbatches;
  std::string optimizer, master_dtype, moments_dtype, grad_dtype, zero;
  std::string dtype, kv_dtype, logits_dtype, remat;
  std::string operation, pipeline_axis;
  std::string profile, memory;
};

// Inputs first, then those above.
Options OptionsOfCost(CostFlags& flags);
// What flags do not say the target does: batch, cache length, memory, and its
// operation of the mode. Nothing, and findings, where one cannot be read.
std::optional<cost::Settings> CostSettings(const CostFlags& flags,
                                           const Target& target, Mode mode,
                                           Findings& findings);

// `--remat POLICY`, of every command that has a backward phase.
Option RematOption(std::string* to);
// False after a finding; a flag that is not given changes nothing.
bool ReadRemat(const std::string& text, step::Remat& out, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COST_FLAGS_H_
