// The tensor parallel strategy of each attention and feed-forward block.
#ifndef SHARDC_SUGGEST_STRATEGIES_H_
#define SHARDC_SUGGEST_STRATEGIES_H_

#include <vector>

#include "suggest/choice.h"
#include "suggest/dims.h"
#include "suggest/mesh_axes.h"
#include "suggest/parameter_groups.h"
#include "suggest/weight_spec.h"

namespace shardc::suggest {

// One strategy for each group of the tree; kInner for what is no attention or
// feed-forward projection.
std::vector<TensorParallelStrategy> ChooseStrategies(
    const Tree& tree, const ModelDims& dims, const MeshAxes& mesh,
    const Preferences& preferences, const SpecChooser& specs);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_STRATEGIES_H_
