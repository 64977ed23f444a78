// Lists the parameters whose roles nothing shows: neither a `model:` section,
// nor their names. A step may multiply its tokens with any of them, so figures
// that are computed without them are lower bounds.
#ifndef SHARDC_COST_UNKNOWN_ROLES_H_
#define SHARDC_COST_UNKNOWN_ROLES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cost/inputs.h"

namespace shardc::cost {

// Returns the facts that are missing; empty if all roles are known.
std::vector<NotKnown> UnknownRoles(const CostInputs& work);

// Returns the missing fact if a matrix of unknown role may be an adapter of
// LoRA, in training: next to adapters that are known, and where two such
// matrices are [rank, in] and [out, rank] with a rank that is small. Adapters
// alone are trained, and the other weights have no gradient then. Returns
// nullopt otherwise.
std::optional<NotKnown> UnknownAdapters(const CostInputs& work);

// Returns the missing fact if the model has experts and the configuration does
// not give the number of experts that a token is sent to. Figures are computed
// with one expert, so they are lower bounds. Returns nullopt otherwise.
std::optional<NotKnown> MissingExpertChoice(const CostInputs& work);

// Returns the sizes of the configuration that the parameters contradict: heads,
// the hidden size, experts and layers. Figures that take them from it would be
// those of another model.
std::vector<NotKnown> ContradictedSizes(const CostInputs& work);

// Returns the fact that is missing if CostInputs::ServesQuantised().
NotKnown MissingQuantisedWeights();

// Returns whether a fact is missing that the user can give, such as the number
// of heads, which every complete input has. Other facts, such as how a ring
// runs on rows that do not divide, no input can give.
bool CanBeSettled(const std::vector<NotKnown>& facts);

// Returns whether a parameter in layers is a matrix without a known role. A
// layer is then assumed to multiply its tokens with this matrix.
bool IsUnnamedMatrix(const ParamClass& param);

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

#endif  // SHARDC_COST_UNKNOWN_ROLES_H_
