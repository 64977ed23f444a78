// Computes the most that a device holds during a training step in addition to
// parameters, gradients and optimizer states. The peak is either while the loss
// is computed or in the backward pass of a layer.
#ifndef SHARDC_COST_PEAK_H_
#define SHARDC_COST_PEAK_H_

#include <cstdint>
#include <string_view>

#include "cost/activations.h"
#include "cost/inputs.h"
#include "cost/settings.h"
#include "cost/stack.h"

namespace shardc::cost {

enum class Moment : uint8_t { kLoss, kBackward };
inline constexpr std::string_view kMomentNames[] = {
    "the loss", "the backward pass of a layer"};
inline constexpr std::string_view kMomentKeys[] = {"loss", "backward"};

// Bytes on a device.
struct Peak {
  Moment moment = Moment::kLoss;
  // The bytes at the peak: kept tensors with those of the layer in its backward
  // pass; the logits with the loss's copies of them; gathered weights.
  int64_t activations = 0, logits = 0, gathered = 0;
  // The sum of the three, with the lower estimate of each and with the upper
  // one.
  int64_t least = 0, most = 0;
};

// The weights of a layer and of the largest other parameter that are gathered
// over the axes that shard tokens, in bytes of the dtype of the products.
struct GatheredWeights {
  int64_t layer = 0, largest = 0;
  // The bytes by which all parameters of a device grow if they are cast to the
  // dtype of the products at once; 0 if they have it.
  int64_t casts = 0;
};

// Returns the number of copies of the logits that the loss is expected to hold.
double LossCopies(const Settings& settings, const StackMemory& stack);

// Returns the peak of one micro-batch.
Peak PeakOf(const CostInputs& work, const Settings& settings,
            const Activations& activations, const GatheredWeights& gathered);

}  // namespace shardc::cost

#endif  // SHARDC_COST_PEAK_H_
