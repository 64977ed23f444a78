// The specs of what follows a weight: biases, scales, and vectors with a number
// for each head.
#ifndef SHARDC_SUGGEST_COMPANION_SPEC_H_
#define SHARDC_SUGGEST_COMPANION_SPEC_H_

#include <cstddef>
#include <vector>

#include "suggest/choice.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// Whether a group's spec follows that of a weight.
bool IsCompanion(Role role);

// The spec of a bias or scale whose weight is known. `weights` are the choices
// for all groups that are no companions.
Choice ChooseForCompanion(const InferredDims& companion, const ModelDims& dims,
                          const std::vector<Choice>& weights);

// The spec of a head vector: that of the heads of its block's projection if it
// has a number for each of them (or for each of their columns), otherwise
// replicated.
Choice ChooseForHeadVector(size_t k, const ModelDims& dims,
                           const std::vector<Choice>& weights);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_COMPANION_SPEC_H_
