// The activations of a model's layers on a device, and the logits.
#ifndef SHARDC_COST_ACTIVATIONS_H_
#define SHARDC_COST_ACTIVATIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/inputs.h"
#include "cost/settings.h"

namespace shardc::cost {

struct LayerTensor {
  Candidate what;
  int64_t layers = 0;    // layers that have it
  int64_t bytes = 0;     // of one layer, on a device
  bool kept = false;     // by the policy, from forward to backward
  bool encoder = false;  // of an encoder's layer, next to a decoder
};

struct Activations {
  std::vector<LayerTensor> tensors;
  int64_t kept = 0;     // of all layers
  int64_t working = 0;  // bytes of the layer that is computed, besides `kept`
  bool encoder_works = false;  // the layer of `working` is the encoder's
  std::optional<int64_t> logits;
  bool logits_sharded = false;  // over the vocabulary

  int64_t Total() const { return (Size(kept) + working).value(); }
};

// The tokens and rows of a microbatch on a device.
struct Tokens {
  int64_t rows = 1;    // of the batch
  int64_t length = 1;  // of the sequence
  int64_t keys = 1;    // keys that each of them attends to
  // Of an encoder's sequence: 0 without an encoder, and in decoding, which does
  // not run it. The number of its keys is that of all devices.
  int64_t encoder_length = 0;
  int64_t encoder_keys = 0;
  int64_t All() const { return (Size(rows) * length).value(); }
  // Returns the tokens that a parameter of the stream is applied to.
  int64_t Of(Stream stream) const;
};
// Returns nullopt if the settings have no batch or, except in decoding, no
// length, or if the tokens do not fit in 64 bits.
std::optional<Tokens> TokensOf(const CostInputs& work,
                               const Settings& settings);

// Returns the activations of all layers. Returns nullopt and sets `why` to the
// reason if a size is unknown.
std::optional<Activations> ActivationsOf(const CostInputs& work,
                                         const Settings& settings,
                                         std::string& why);

// Returns the fraction of the model's matrix products that the backward pass
// recomputes.
double RecomputedShare(const Activations& activations);

}  // namespace shardc::cost

#endif  // SHARDC_COST_ACTIVATIONS_H_
