// Divides the outputs of a transfer among several processes. The processes run
// on one or more machines and share only the file system.
#ifndef SHARDC_CHECKPOINT_OWNERSHIP_H_
#define SHARDC_CHECKPOINT_OWNERSHIP_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "source/finding.h"
#include "source/launcher.h"

namespace shardc {

struct ProcessShare {
  int64_t index = 0;
  int64_t count = 1;
  // The environment variable from which `index` was read; empty if there was
  // none.
  std::string from;
};

// Returns for each output whether the process `share` owns it. A process owns
// consecutive outputs, or no output. The processes own about equal numbers of
// bytes if the outputs are small. Every output has exactly one owner.
std::vector<bool> OwnOutputs(std::span<const int64_t> bytes,
                             const ProcessShare& share);

// Returns the share of this process from the environment variables of SLURM (of
// a job step), Open MPI or torchrun. They are tried in this order. Returns
// process 0 of 1 if none of them is set. Returns nullopt after a finding
// (`usage`) if their values are invalid.
std::optional<ProcessShare> DetectProcess(const Variable& variable,
                                          Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_OWNERSHIP_H_
