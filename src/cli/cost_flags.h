// The options of `cost` and `fit`. They describe how a model is trained or
// served, and on which devices.
#ifndef SHARDC_CLI_COST_FLAGS_H_
#define SHARDC_CLI_COST_FLAGS_H_

#include <memory>
#include <optional>
#include <string>

#include "cli/inputs.h"
#include "cost/settings.h"
#include "source/finding.h"
#include "step/accumulate.h"
#include "step/remat.h"

namespace shardc::cli {

// The largest number of devices for which `fit` and `search` list meshes.
inline constexpr int64_t kMostDevices = 1 << 20;

struct CostFlags {
  InputFlags inputs;
  std::string mode = "train";
  std::string batch, length, kv_length, microbatches, reduce;
  std::string optimizer, master_dtype, moments_dtype, grad_dtype, zero;
  std::string dtype, kv_dtype, logits_dtype, remat;
  std::string operation, pipeline_axis;
  std::string profile, memory, stack, matmul_dtype, loss, loss_chunk;
  std::string dispatcher, graphs, capacity_factor, routing;
  bool overlap_tensor = false, overlap_experts = false;
};

// Returns the options that fill CostFlags, with the input options at the end.
Options OptionsOfCost(CostFlags& flags);
// Returns the options with the step options of the target (`seq`, `remat` ...)
// in place of those that are not given. Options of training are taken from the
// target only in training, and `--seq` is not taken in generation.
CostFlags WithStepOptions(CostFlags flags, const Target& target, Mode mode);

// Returns the settings that the options describe. The step options, the batch,
// the length of the KV cache, the memory of a device and the attention
// operation of the mode are taken from the target if their options are not
// given. Returns nullopt with findings if an option is invalid.
std::optional<cost::Settings> CostSettings(const CostFlags& flags,
                                           const Target& target, Mode mode,
                                           Findings& findings);

// Returns the option `--profile NAME|FILE`. Shells complete the names of the
// known accelerators.
Option ProfileOption(std::string* to);
// Returns the profile of a known accelerator, or reads a profile from a file.
// Returns null for an empty name. If `name` is neither a known accelerator nor
// a file with a profile, adds a finding and returns null.
std::shared_ptr<const DeviceProfile> ReadProfile(const std::string& name,
                                                 Findings& findings);

// Returns the option `--reduce WHEN`, for commands that divide a batch into
// micro-batches. Its value selects when the gradients of micro-batches are
// reduced, for example `once` after all micro-batches.
Option ReduceOption(std::string* to);
// Parses the value of `--reduce`. Returns false after a finding if the value is
// unknown. An empty text leaves `out` unchanged.
bool ReadReduction(const std::string& text, step::Reduction& out,
                   Findings& findings);

// Returns the option `--remat POLICY`, for commands that evaluate training
// steps. The policy selects which activations the backward pass recomputes.
Option RematOption(std::string* to);
// Parses the value of `--remat`. Returns false after a finding if the policy is
// unknown. An empty text leaves `out` unchanged.
bool ReadRemat(const std::string& text, step::Remat& out, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COST_FLAGS_H_
