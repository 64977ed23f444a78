// Finds the dimensions that count scanned layers, by parameter group.
#ifndef SHARDC_LINT_ANALYSIS_SCANNED_H_
#define SHARDC_LINT_ANALYSIS_SCANNED_H_

#include <vector>

#include "lint/analysis/facts.h"
#include "roles/layer_stacks.h"

namespace shardc {

// Finds the layer stacks of the parameter groups. Uses the number of layers in
// the model's configuration, if it is known. LayerStacks::dims is indexed by
// group.
LayerStacks StacksOf(const Facts& facts);

// Returns the dimensions of a group's parameters that count no scanned layers,
// in ascending order: 1 and 2 of [layers, in, out].
std::vector<int> UnscannedDims(const Facts& facts, const LayerStacks& stacks,
                               const ParameterGroup& group);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_SCANNED_H_
