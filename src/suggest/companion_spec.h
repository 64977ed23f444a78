// Chooses the specs of parameters that follow a weight: biases, scales, and
// vectors with a number for each head.
#ifndef SHARDC_SUGGEST_COMPANION_SPEC_H_
#define SHARDC_SUGGEST_COMPANION_SPEC_H_

#include <cstddef>
#include <vector>

#include "suggest/choice.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// Returns whether parameters of this role follow a weight: biases, scales and
// head vectors.
bool IsCompanion(Role role);

// Returns the spec of a bias or scale whose weight is known. `weights` are the
// choices for all groups that are not companions.
Choice ChooseForCompanion(const InferredDims& companion, const ModelDims& dims,
                          const std::vector<Choice>& weights);

// Returns the spec of a head vector. If it has a number for each head, or for
// each column of the heads, it is sharded as the heads of its block's
// projection are; otherwise it is replicated.
Choice ChooseForHeadVector(size_t k, const ModelDims& dims,
                           const std::vector<Choice>& weights);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_COMPANION_SPEC_H_
