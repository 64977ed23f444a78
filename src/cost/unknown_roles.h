// Lists the parameters whose roles nothing shows: neither a `model:` section,
// nor their names. A step may multiply its tokens with any of them, so figures
// that are computed without them are lower bounds.
#ifndef SHARDC_COST_UNKNOWN_ROLES_H_
#define SHARDC_COST_UNKNOWN_ROLES_H_

#include <optional>
#include <span>
#include <vector>

#include "cost/inputs.h"

namespace shardc::cost {

// Returns the facts that are missing; empty if all roles are known.
// `layer_dims` has, for each parameter, the number of its leading dimensions
// that count layers.
std::vector<NotKnown> UnknownRoles(const CostInputs& work,
                                   std::span<const int> layer_dims);

// Returns the missing fact if the model has experts and the configuration does
// not give the number of experts that a token is sent to. Figures are computed
// with one expert, so they are lower bounds. Returns nullopt otherwise.
std::optional<NotKnown> MissingExpertChoice(const CostInputs& work);

// Returns the fact that is missing if CostInputs::ServesQuantised().
NotKnown MissingQuantisedWeights();

// Returns whether a fact is missing that the user can give. Such a fact, as the
// number of heads, is known of every complete input, and no time is computed
// without it. Other facts, as how a ring runs on rows that do not divide, have
// no effect on most of the time, which is then given next to the fact.
bool CanBeSettled(const std::vector<NotKnown>& facts);

}  // namespace shardc::cost

#endif  // SHARDC_COST_UNKNOWN_ROLES_H_
