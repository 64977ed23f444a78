// Chooses the specs of companions: biases, quantisation scales, and vectors
// with a number for each head. Their sharding follows that of a weight.
#ifndef SHARDC_SUGGEST_COMPANION_SPEC_H_
#define SHARDC_SUGGEST_COMPANION_SPEC_H_

#include <cstddef>
#include <vector>

#include "suggest/choice.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// Returns whether the role is that of a companion: a bias, a scale or a head
// vector (a number for each head, or for each column of all heads).
bool IsCompanion(Role role);

// Returns the spec of a bias or scale whose weight is known. `weights` is
// indexed by parameter group and holds the choices for all groups that are not
// companions.
Choice ChooseForCompanion(const InferredDims& companion, const ModelDims& dims,
                          const std::vector<Choice>& weights);

// Returns the spec of a head vector, the parameter group with the index `k`. A
// vector with a number for each head, or for each column of all heads, is
// sharded as the heads of the projection in the same block are. Another vector
// is replicated.
Choice ChooseForHeadVector(size_t k, const ModelDims& dims,
                           const std::vector<Choice>& weights);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_COMPANION_SPEC_H_
