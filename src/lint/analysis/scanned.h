// Finds the dimensions that count scanned layers, by parameter group.
#ifndef SHARDC_LINT_ANALYSIS_SCANNED_H_
#define SHARDC_LINT_ANALYSIS_SCANNED_H_

#include "lint/analysis/facts.h"
#include "roles/layer_stacks.h"

namespace shardc {

// Finds the layer stacks of the parameter groups. Uses the number of layers in
// the model's configuration, if it is known. LayerStacks::dims is indexed by
// group.
LayerStacks StacksOf(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_SCANNED_H_
