// Gives every weight the dimensions that the cost model expects: first the
// dimensions that count layers and experts, then the two dimensions of a
// matrix.
#ifndef SHARDC_COST_MATRIX_DIMS_H_
#define SHARDC_COST_MATRIX_DIMS_H_

#include <vector>

#include "cost/inputs.h"

namespace shardc::cost {

// Changes the shapes and specs of weights that are not stored as a matrix.
// There are three cases: projections of attention with a dimension of heads,
// fused gate and up projections with a dimension of size 2, and weights that
// hold all experts in one matrix. The number of elements stays the same, in
// total and on a device. If only the sizes of a weight show that it belongs to
// experts, and not its name, ParameterRole::expert is set. `layer_dims` has the
// number of leading dimensions of each parameter that count layers.
void FindMatrixDims(CostInputs& work, const std::vector<int>& layer_dims);

}  // namespace shardc::cost

#endif  // SHARDC_COST_MATRIX_DIMS_H_
