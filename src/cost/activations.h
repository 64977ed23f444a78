// The tensors of a model's layers as a device has them, and the logits.
#ifndef SHARDC_COST_ACTIVATIONS_H_
#define SHARDC_COST_ACTIVATIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/settings.h"
#include "cost/work.h"

namespace shardc::cost {

struct LayerTensor {
  Candidate what;
  int64_t layers = 0;  // that have it
  int64_t bytes = 0;   // of one layer, on a device
  bool kept = false;   // by the policy, from forward to backward
};

struct Activations {
  std::vector<LayerTensor> tensors;
  int64_t kept = 0;     // of all layers
  int64_t working = 0;  // of the one layer that is being computed, beside them
  std::optional<int64_t> logits;

  int64_t Total() const { return kept + working; }
};

// How many tokens and rows of a microbatch a device has.
struct Tokens {
  int64_t rows = 1;    // of the batch
  int64_t length = 1;  // of the sequence
  int64_t keys = 1;    // that these attend to
  int64_t All() const { return rows * length; }
};
// Nothing without a batch or a length.
std::optional<Tokens> TokensOf(const Work& work, const Settings& settings);

// Layers and parts of a pipeline: 1 where the mesh has none.
int64_t PipelineParts(const Work& work, const Settings& settings);

// Of the first stage of a pipeline, which holds most. Nothing, and why,
// where sizes are not known.
std::optional<Activations> ActivationsOf(const Work& work,
                                         const Settings& settings,
                                         std::string& why);

// The part of the model's products that is computed twice.
double RecomputedShare(const Activations& activations);

}  // namespace shardc::cost

#endif  // SHARDC_COST_ACTIVATIONS_H_
