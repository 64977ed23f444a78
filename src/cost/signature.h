// Makes a text that is equal for two rules files that shard a model in the same
// way.
#ifndef SHARDC_COST_SIGNATURE_H_
#define SHARDC_COST_SIGNATURE_H_

#include <optional>
#include <string>

#include "cost/inputs.h"
#include "plan/compile.h"

namespace shardc::cost {

// Returns a text with everything that the figures of a training step depend on,
// except for the settings, the model's configuration and the `model:` section
// of the rules. The text has the mesh, the sharding of parameters, and the mesh
// axes of activations. If two targets have equal texts and the same settings,
// configuration and `model:` section, their figures are equal. `work` are the
// inputs made of `compiled`. Returns nullopt if a spec of training is illegal.
// Also returns nullopt if parameters whose names differ only in numbers have
// different types or shardings, because the text has one entry for them.
std::optional<std::string> SignatureOf(const Compiled& compiled,
                                       const CostInputs& work);

}  // namespace shardc::cost

#endif  // SHARDC_COST_SIGNATURE_H_
