// Finds the gates and the experts of feed-forward blocks, norms, and the
// orientation of weights that words of names alone do not show.
#ifndef SHARDC_COST_FOUND_EXPERTS_H_
#define SHARDC_COST_FOUND_EXPERTS_H_

#include <optional>
#include <span>

#include "cost/inputs.h"

namespace shardc::cost {

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

#endif  // SHARDC_COST_FOUND_EXPERTS_H_
