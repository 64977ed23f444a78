// Finds the gates and the experts of feed-forward blocks that words of names
// alone do not show.
#ifndef SHARDC_COST_FOUND_EXPERTS_H_
#define SHARDC_COST_FOUND_EXPERTS_H_

#include <optional>

#include "cost/inputs.h"

namespace shardc::cost {

// Gives the role of a gate to a parameter named `gate` that has the shape of
// the up projection next to it. Without such a neighbour, it is a router.
void FindGates(CostInputs& work);

// Marks the numbered feed-forward blocks of a layer as experts if no word of
// any name is one for experts, and if there are as many blocks as experts. Must
// be called after FindGates().
void FindExperts(CostInputs& work);

// Returns the missing fact if the configuration states experts, the names and
// sizes show none, and a layer has several feed-forward blocks. These are then
// computed as if every token used all of them. Returns nullopt otherwise.
std::optional<NotKnown> UnfoundExperts(const CostInputs& work);

}  // namespace shardc::cost

#endif  // SHARDC_COST_FOUND_EXPERTS_H_
