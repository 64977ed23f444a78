// Makes a text that is equal for two rules files that shard a model in the same
// way.
#ifndef SHARDC_COST_SIGNATURE_H_
#define SHARDC_COST_SIGNATURE_H_

#include <optional>
#include <string>

#include "cost/inputs.h"
#include "plan/compile.h"

namespace shardc::cost {

// Returns a text with the mesh, the sharding of the parameters, and the mesh
// axes of the activations. If two targets have equal texts, and also the same
// settings, model configuration and `model:` section of the rules, the figures
// of their training steps are equal. `work` are the inputs made of `compiled`.
// Returns nullopt if a spec of training is illegal. Also returns nullopt if
// parameters whose names differ only in numbers have different types or
// shardings, because the text has one entry for them.
std::optional<std::string> SignatureOf(const Compiled& compiled,
                                       const CostInputs& work);

}  // namespace shardc::cost

#endif  // SHARDC_COST_SIGNATURE_H_
