// Gives every weight the dimensions that the cost model expects: first the
// dimensions that count layers and experts, then the two dimensions of a
// matrix.
#ifndef SHARDC_COST_MATRIX_DIMS_H_
#define SHARDC_COST_MATRIX_DIMS_H_

#include <cstdint>
#include <optional>
#include <span>
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

// Sets ParamClass::mixes, and the roles of projections out of mixers. Some
// models call their attention `mixer`; its projections get the roles of
// attention.
void FindMixers(CostInputs& work, char separator);

// Sets ParamClass::packing, the number of weights in one stored number, for
// each quantised matrix. The output and input dimensions of the matrices must
// be set.
void FindPacking(CostInputs& work, std::optional<int64_t> hidden);

// Sets ParamClass::sharing_layers of the weights of blocks of attention and MLP
// that layers share, as in Zamba. The dimensions of the weights must be known.
void FindSharedBlocks(CostInputs& work, char separator);
// Sets ParamClass::sharing_layers of `chosen`, which has some of the parameters
// of `whole`. All layers that share a block are assumed to be in the stage that
// has the block's tensors, because the checkpoint has these tensors only once.
void ShareBlocksAs(const CostInputs& whole, CostInputs& chosen);

// Gives the role of a gate to a parameter named `gate` that has the shape of
// the up projection next to it. Without such a neighbour, it is a router.
void FindGates(CostInputs& work);

// Marks the numbered feed-forward blocks of a layer as experts if no word of
// any name is one for experts, and if there are as many blocks as experts. Must
// be called after FindGates().
void FindExperts(CostInputs& work);

// Marks feed-forward blocks next to the container of routed experts as shared
// experts, whatever their name is.
void FindSharedExperts(CostInputs& work, char separator);

// Finds the norms among vectors of the model's width in layers: no module of a
// matrix has them. `layer_dims` has the number of dimensions that count layers
// of each parameter.
void FindNorms(CostInputs& work, char separator,
               std::span<const int> layer_dims);

// Finds the orientation of weights whose last part of the name is unknown, from
// other weights with the same last part whose sizes show it.
void FindOrientation(CostInputs& work, char separator);

// Returns the missing fact if the configuration states experts, the names and
// sizes show none, and a layer has several feed-forward blocks. These are then
// computed as if every token used all of them. Returns nullopt otherwise.
std::optional<NotKnown> UnfoundExperts(const CostInputs& work);

}  // namespace shardc::cost

#endif  // SHARDC_COST_MATRIX_DIMS_H_
