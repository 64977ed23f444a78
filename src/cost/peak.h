// Computes the peak of the bytes that a device holds during a training step in
// addition to parameters, gradients and optimizer states. The peak is at one of
// two moments: while the loss is computed, or in the backward pass of a layer.
// On some software, gradients exist only for a part of the step
// (StepGradients). The peak then also includes the gradients that exist at its
// moment.
#ifndef SHARDC_COST_PEAK_H_
#define SHARDC_COST_PEAK_H_

#include <cstdint>
#include <string_view>

#include "cost/activations.h"
#include "cost/inputs.h"
#include "cost/settings.h"
#include "cost/stack.h"
#include "source/size.h"

namespace shardc::cost {

enum class Moment : uint8_t { kLoss, kBackward };
inline constexpr std::string_view kMomentNames[] = {
    "the loss", "the backward pass of a layer"};
inline constexpr std::string_view kMomentKeys[] = {"loss", "backward"};

struct Peak {
  Moment moment = Moment::kLoss;
  // The activations that are kept from the forward pass for the backward pass:
  // the expected bytes, and a lower estimate.
  int64_t kept = 0, least_kept = 0;
  // The expected bytes at the peak in addition to `kept`. `working` are the
  // bytes of the layer in its backward pass, and 0 if the peak is at the loss.
  // `logits` includes the copies that the loss makes, and is 0 if the peak is
  // in the backward pass. `gathered` are the gathered weights. `gradients` are
  // the gradients that exist at the peak, and 0 without StepGradients.
  int64_t working = 0, logits = 0, gathered = 0, gradients = 0;
  // A lower and an upper estimate of the bytes in addition to `kept`.
  int64_t least = 0, most = 0;
  // The bytes of the layer in its backward pass, even if the peak is at the
  // loss.
  int64_t layer = 0;

  // Returns the sum of the expected bytes in addition to `kept`.
  int64_t Besides() const {
    return (Size(working) + logits + gathered + gradients).value();
  }
};

// The bytes of weights that are gathered over the axes that shard tokens.
struct GatheredWeights {
  // The bytes of all weights of one layer, and of the largest parameter outside
  // of layers. Both are 0 if the weights are gathered once a step.
  int64_t layer = 0, largest = 0;
  // The bytes of all weights, if they are gathered once a step
  // (Settings::gathers_once) and held until its end; else 0.
  int64_t held = 0;
  // The bytes of a copy of all parameters in the dtype of the activations, on a
  // device: software that casts all parameters at once holds such a copy.
  // Parameters that are not trained, or whose dtype is not wider, are not
  // copied.
  int64_t casts = 0;
};

// The bytes of gradients that exist only from the backward pass to the update.
// `first` are the bytes after the backward pass of the head. `all` are the
// bytes after the backward pass of the first layer, when no activations are
// kept any more. Both are 0 if gradients exist during the entire step; they are
// then not included in the peak.
struct StepGradients {
  int64_t first = 0, all = 0;
};

// Returns the number of copies of the logits that the loss is expected to hold.
double LossCopies(const Settings& settings, const StackMemory& stack);

// Returns the peak while one micro-batch runs. Weights that are gathered once a
// step (GatheredWeights::held) are not included.
Peak PeakOf(const CostInputs& work, const Settings& settings,
            const Activations& activations, const GatheredWeights& gathered,
            const StepGradients& gradients = {});

}  // namespace shardc::cost

#endif  // SHARDC_COST_PEAK_H_
