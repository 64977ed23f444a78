// Computes how many bytes of parameters and KV cache the fullest device holds.
#ifndef SHARDC_LINT_ANALYSIS_MEMORY_H_
#define SHARDC_LINT_ANALYSIS_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "lint/analysis/facts.h"

namespace shardc {

struct MemoryUse {
  Mode mode = Mode::kTrain;
  int64_t parameters = 0;
  int64_t cache = 0;  // 0 in train, or if a size is unknown
  // The rank of the pipeline whose devices need the most memory; -1 if there is
  // no pipeline.
  int32_t rank = -1;

  int64_t Total() const { return parameters + cache; }
  std::string ToString() const;  // "12 GiB of parameters and 3 GiB of KV cache"
  std::string Device() const;    // "a device", "a device of rank 3"
};

// Returns the memory of the device that needs the most, in the planned mode in
// which this is the largest. Unknown sizes add 0. A mode is skipped if its
// bytes do not fit in 64 bits. Returns nullopt if all modes are skipped.
std::optional<MemoryUse> MostMemory(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_MEMORY_H_
