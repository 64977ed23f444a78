// Gives every weight the dimensions that the cost model expects: those that
// count layers and experts first, and then the two of a matrix.
#ifndef SHARDC_COST_MATRIX_DIMS_H_
#define SHARDC_COST_MATRIX_DIMS_H_

#include <vector>

#include "cost/inputs.h"

namespace shardc::cost {

// Changes the shapes and specs of weights whose stored dimensions are others:
// attention by heads, the two halves of a fused gate and up projection in a
// dimension of their own, and experts whose matrices are joined in one. The
// number of elements, of a device too, stays the same. Sets
// ParameterRole::expert of weights that only their sizes show to be those of
// experts. `layer_dims` has the number of leading dimensions of each parameter
// that count layers.
void FindMatrixDims(CostInputs& work, const std::vector<int>& layer_dims);

}  // namespace shardc::cost

#endif  // SHARDC_COST_MATRIX_DIMS_H_
