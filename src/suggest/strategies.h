// Chooses the tensor-parallel strategy of each attention and feed-forward
// block.
#ifndef SHARDC_SUGGEST_STRATEGIES_H_
#define SHARDC_SUGGEST_STRATEGIES_H_

#include <vector>

#include "suggest/choice.h"
#include "suggest/dims.h"
#include "suggest/mesh_axes.h"
#include "suggest/parameter_groups.h"
#include "suggest/weight_spec.h"

namespace shardc::suggest {

// Returns a strategy for each group of the tree, in the order of `tree.groups`.
// Strategies are chosen for the projections of attention and of feed-forward
// blocks. Another group gets the strategy of the attention block that contains
// it; kInner if it is in no attention block.
std::vector<TensorParallelStrategy> ChooseStrategies(
    const Tree& tree, const ModelDims& dims, const MeshAxes& mesh,
    const Preferences& preferences, const SpecChooser& specs);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_STRATEGIES_H_
