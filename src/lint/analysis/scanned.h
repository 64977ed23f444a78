// The dimensions that count scanned layers, by parameter group.
#ifndef SHARDC_LINT_ANALYSIS_SCANNED_H_
#define SHARDC_LINT_ANALYSIS_SCANNED_H_

#include "lint/analysis/facts.h"
#include "roles/layer_stacks.h"

namespace shardc {

// FindLayerStacks of the groups, with the number of layers that the model's
// configuration gives; LayerStacks::dims is by group.
LayerStacks StacksOf(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_SCANNED_H_
