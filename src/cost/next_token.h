// The layers behind the last layer of a model, which predict further tokens
// (`num_nextn_predict_layers` in a config.json). A tree of parameters that is
// built from the configuration does not have them, but a training step does.
#ifndef SHARDC_COST_NEXT_TOKEN_H_
#define SHARDC_COST_NEXT_TOKEN_H_

#include <optional>
#include <vector>

#include "cost/inputs.h"
#include "model/not_known.h"

namespace shardc::cost {

// Returns the parameters of the layers that CostInputs::next_token_layers
// counts. Each of them has the parameters of a layer with experts, a projection
// of two hidden states into one, and three norms. Each class has the number of
// tensors in all these layers. Returns an empty list if there are no such
// layers, or if the parameters of one layer are not known, because tensors
// stack layers or because the layers differ.
std::vector<ParamClass> NextTokenParams(const CostInputs& work);

// Returns the inputs of the model with these layers as further layers. The
// parameters of the layers must be known.
CostInputs WithNextTokenLayers(const CostInputs& work);

// Returns the missing fact if a training step has such layers, and their
// parameters are not known.
std::optional<NotKnown> MissingNextTokenLayers(const CostInputs& work);

}  // namespace shardc::cost

#endif  // SHARDC_COST_NEXT_TOKEN_H_
