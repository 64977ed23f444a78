// A text that is the same for rules files that shard a model the same way.
#ifndef SHARDC_COST_SIGNATURE_H_
#define SHARDC_COST_SIGNATURE_H_

#include <optional>
#include <string>

#include "cost/inputs.h"
#include "plan/compile.h"

namespace shardc::cost {

// Returns a text with all that the figures of a training step depend on besides
// the settings, the model's configuration and the `model:` section of the
// rules: the mesh, the sharding of parameters, and the mesh axes of
// activations. Two targets with equal texts have equal figures where these are
// equal. `work` are the inputs made of `compiled`. Returns nullopt if specs are
// illegal, or if parameters whose names differ only in numbers have different
// shardings, since the text does not contain which of them has which.
std::optional<std::string> SignatureOf(const Compiled& compiled,
                                       const CostInputs& work);

}  // namespace shardc::cost

#endif  // SHARDC_COST_SIGNATURE_H_
