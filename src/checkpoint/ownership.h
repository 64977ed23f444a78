// Several processes, on one machine or many, that share a transfer's outputs
// with no coordinator but the file system.
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
  std::string from;  // the variable that says so; empty: flags or nobody
};

// Which outputs are a process's own: consecutive ones, about equal in bytes.
// Over all processes every output has exactly one owner.
std::vector<bool> OwnOutputs(std::span<const int64_t> bytes,
                             const ProcessShare& share);

// From SLURM (a job step's), Open MPI or torchrun, in this order. Findings
// (`usage`) where the variables make no sense.
std::optional<ProcessShare> DetectProcess(const Variable& variable,
                                          Findings& findings);

}  // namespace shardc

#endif  // SHARDC_CHECKPOINT_OWNERSHIP_H_
