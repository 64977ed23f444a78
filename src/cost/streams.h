// Finds the tokens that each parameter of a model is applied to.
#ifndef SHARDC_COST_STREAMS_H_
#define SHARDC_COST_STREAMS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cost/inputs.h"

namespace shardc::cost {

// Sets ParamClass::stream of all parameters: whether a parameter is applied to
// the tokens of the step, to the encoder's tokens, or to no tokens. The stream
// follows from the parameter's name and from whether the model has an encoder.
void SetStreams(CostInputs& work, char separator);

// Returns the number of tokens that an encoder reads in each row, if the
// parameters determine this number: an audio encoder reads as many tokens as
// its table of positions has rows. Returns nullopt for other encoders.
std::optional<int64_t> EncoderLength(const CostInputs& work);

// Returns whether a parameter is a convolution of an encoder, [out, in,
// window].
bool IsEncoderConvolution(const ParamClass& param);

bool HasStream(const CostInputs& work, Stream stream);

// Returns whether the model has an encoder and no decoder, so that no step has
// logits.
bool IsEncoderAlone(const CostInputs& work);

// Returns the inputs with only the parameters that are applied to the tokens of
// `first` or of `second`.
CostInputs WithStreams(const CostInputs& work, Stream first, Stream second);

// Returns the widths of the hidden states that down projections compute, each
// once. There are several if an encoder has several towers, as CLIP has for
// texts and for images.
std::vector<int64_t> HiddenWidths(const CostInputs& work);

// Returns the inputs with only the weights that read a hidden state of this
// width, the output and down projections that compute one, and the vectors of
// this length.
CostInputs WithWidth(const CostInputs& work, int64_t width);

}  // namespace shardc::cost

#endif  // SHARDC_COST_STREAMS_H_
