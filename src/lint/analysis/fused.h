// Finds the parts of fused projections, which have query, key and value, or
// gate and up, in one matrix.
#ifndef SHARDC_LINT_ANALYSIS_FUSED_H_
#define SHARDC_LINT_ANALYSIS_FUSED_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/scanned.h"

namespace shardc {

struct FusedPart {
  std::string name;
  int64_t size = 0;
};

// The parts of a fused projection, which are stored one after the other in
// dimension `dim`.
struct Fused {
  int dim = 0;
  // The parts of the dimension, never empty. There is no part for the values,
  // because they are divided like the keys, which have the same size.
  std::vector<FusedPart> parts;
};

// Returns the parts of a group, or nullopt if the group is not a fused
// projection or the sizes of its parts are unknown.
std::optional<Fused> FusedOf(const Facts& facts, const LayerStacks& stacks,
                             const ParameterGroup& group);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_FUSED_H_
