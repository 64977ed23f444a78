// Computes the bytes of the activations of a model's layers, and of the logits,
// on a device.
#ifndef SHARDC_COST_ACTIVATIONS_H_
#define SHARDC_COST_ACTIVATIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/inputs.h"
#include "cost/settings.h"
#include "model/not_known.h"

namespace shardc::cost {

struct LayerTensor {
  Candidate what;
  int64_t layers = 0;     // number of layers that have this tensor
  int64_t bytes = 0;      // bytes of one layer's tensor on one device
  bool kept = false;      // true if it is kept for the backward pass
  bool repeated = false;  // true if the backward pass rematerialises it
  bool encoder = false;   // true if the tensor is of an encoder's layers
};

struct Activations {
  std::vector<LayerTensor> tensors;
  int64_t kept = 0;     // bytes of the kept tensors of all layers
  int64_t working = 0;  // bytes of the tensors of one layer that are not kept
  bool encoder_works = false;  // true if `working` belongs to an encoder layer
  std::optional<int64_t> logits;
  bool logits_sharded = false;  // true if the vocabulary is sharded
  // False if a sum for each token and head is missing among the tensors,
  // because nothing shows the number of heads. All totals are then too small.
  bool sums_known = true;

  int64_t Total() const { return (Size(kept) + working).value(); }
};

// The numbers of tokens and of rows (sequences) of a micro-batch on a device.
struct Tokens {
  int64_t rows = 1;    // rows of a micro-batch on one device
  int64_t length = 1;  // tokens of each row on one device
  // The number of keys, summed over all devices, that a token attends to.
  int64_t keys = 1;
  // The number of the encoder's tokens on a device for each row. It is 0 if the
  // model has no encoder, and in decoding, which does not run the encoder.
  // `encoder_keys` is the number of the encoder's tokens on all devices.
  int64_t encoder_length = 0;
  int64_t encoder_keys = 0;
  int64_t All() const { return (Size(rows) * length).value(); }
  // Returns the number of tokens that the parameters of `stream` are applied
  // to. For Stream::kEncoder, for example, these are the tokens of the encoder.
  int64_t Of(Stream stream) const;
};
// Returns the tokens of a micro-batch on a device. Returns nullopt if
// `settings` has no batch, or if the number of tokens does not fit in 64 bits.
// Also returns nullopt if `settings` has no length, except in the modes decode
// and insert, in which each row has only one token.
std::optional<Tokens> TokensOf(const CostInputs& work,
                               const Settings& settings);

// Returns whether the settings have the batch and the length that TokensOf
// needs.
bool HasTokens(const CostInputs& work, const Settings& settings);

// Returns the activations of all layers. Returns nullopt and sets `why` to the
// reason if the tokens or the hidden size are unknown, or if the bytes do not
// fit in 64 bits.
std::optional<Activations> ActivationsOf(const CostInputs& work,
                                         const Settings& settings,
                                         NotKnown& why);

// Returns the fact that is missing if Activations::sums_known is false.
NotKnown MissingSums();

// Returns the fraction of the layers' matmuls that the backward pass
// recomputes. Each matmul is weighted by the bytes of its result.
double RecomputedShare(const Activations& activations);

}  // namespace shardc::cost

#endif  // SHARDC_COST_ACTIVATIONS_H_
