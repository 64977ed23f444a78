// Divides the outputs of a transfer among several processes, on one machine or
// on many, which share only the file system.
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
  std::string from;  // variable that defines it; empty: flags or default
};

// Returns for each output whether the process `share` owns it. A process owns
// consecutive outputs, or none. The processes own about the same number of
// bytes if the outputs are small. Every output has exactly one owner.
std::vector<bool> OwnOutputs(std::span<const int64_t> bytes,
                             const ProcessShare& share);

// Returns the share that the variables of SLURM (of a job step), Open MPI or
// torchrun state, in this order, or process 0 of 1 if none of them is set.
// Returns nullopt after a finding (`usage`) if their values are invalid.
std::optional<ProcessShare> DetectProcess(const Variable& variable,
                                          Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_OWNERSHIP_H_
