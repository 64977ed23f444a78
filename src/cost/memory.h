// Computes the bytes that devices hold, by component, such as parameters and
// logits.
#ifndef SHARDC_COST_MEMORY_H_
#define SHARDC_COST_MEMORY_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/memory.h"
#include "cost/activations.h"
#include "cost/inputs.h"
#include "cost/rates.h"
#include "cost/settings.h"
#include "model/not_known.h"
#include "source/size.h"

namespace shardc::cost {

// Computes the peak of the bytes that a device holds during a training step in
// addition to parameters, gradients and optimizer states. The peak is at one of
// two moments: while the loss is computed, or in the backward pass of a layer.
// On some software, gradients exist only for a part of the step
// (StepGradients). The peak then also includes the gradients that exist at its
// moment.

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

enum class Component : uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kCache,
  kActivations,
  kLogits,
  // Gathered weights: those of the layer that is being computed, or those of
  // all layers if they are gathered once a step.
  kGathered,
};
inline constexpr size_t kComponentCount = 7;
inline constexpr std::array<std::string_view, kComponentCount> kComponentNames =
    {"parameters",  "gradients", "optimizer", "kv_cache",
     "activations", "logits",    "gathered"};

// The reason for unknown logits, which is added to Memory::unknown.
inline constexpr std::string_view kUnknownLogits =
    "logits: no embedding and no head was found";

// Returns the dtype in which weights are gathered. It is the stored dtype or,
// in training, the dtype of the activations if that is narrower.
Dtype GatheredDtype(const CostInputs& work, const Settings& settings,
                    Dtype stored);

// The bytes of each component. A component that is nullopt is unknown;
// Memory::unknown has the reason.
struct Held {
  std::array<std::optional<int64_t>, kComponentCount> by;
  // The bytes of the known tensors of a component that is unknown only because
  // other tensors are missing (Activations::sums_known); else 0.
  std::array<int64_t, kComponentCount> parts{};
  // The sum of the known components and parts; nullopt if it overflows.
  std::optional<int64_t> total;
  const std::optional<int64_t>& Of(Component one) const {
    return by[static_cast<size_t>(one)];
  }
  // Returns the known bytes of a component; 0 if none are known.
  int64_t KnownOf(size_t component) const {
    return by[component].value_or(parts[component]);
  }
};

// The device memory that a training step uses: its tensors, the reserve of the
// allocator, the device's context and its communicators.
struct TakenBytes {
  // The lower estimate includes only tensors.
  int64_t least = 0;
  // The expected bytes include tensors and the reserve of the allocator.
  int64_t expected = 0;
  // The upper estimate includes the context and the communicators as well.
  int64_t most = 0;
  Moment moment = Moment::kLoss;  // the moment of the peak
  const Stack* stack = nullptr;
  bool stack_assumed = false;
};

enum class Fit : uint8_t { kFits, kMayFit, kExceeds };

struct Memory {
  // The bytes of the device that holds the most bytes, and of the device that
  // holds the fewest. In training, these are the bytes at the peak of the step.
  // On a mesh of one device with one micro-batch, gradients may exist only
  // from the backward pass on. If the peak is earlier, while the loss is
  // computed, `most` and `least` then include no gradients.
  Held most, least;
  // The bytes of the gradients of all parameters; nullopt if a size is unknown.
  // At the peak of the step, only a part of these gradients may exist.
  std::optional<int64_t> gradients;
  // Set in training if the sizes of all parameters and gathered weights are
  // known, and the activations or at least a part of them (Held::parts). In the
  // latter case, its bytes are too small.
  std::optional<TakenBytes> taken;
  std::optional<int64_t> capacity;  // bytes of memory of a device
  std::optional<Activations> activations;
  std::optional<GatheredWeights> weights;  // set only in training
  // The facts that the components need and that are not known.
  std::vector<NotKnown> unknown;
  // Whether the known components are lower bounds, because they leave out
  // parameters whose roles are not known (CostInputs::not_known).
  bool at_least = false;
  // Whether the known components leave out layers that predict further tokens
  // (CostInputs::LacksLayers()). The time of a step includes them.
  bool lacks_layers = false;

  // Returns the bytes that a device is expected to use. If `taken` is set and
  // has all activations, they are taken->expected. Otherwise they are the sum
  // of what is known, or nullopt if the sum overflows.
  std::optional<int64_t> Expected() const {
    return HasPeak() ? std::optional(taken->expected) : most.total;
  }
  // Returns whether `taken` is set and has all activations.
  bool HasPeak() const { return taken && most.parts == decltype(most.parts){}; }
  // Returns whether all components of `most` are known, none of them only as a
  // lower bound.
  bool Complete() const;
  // Returns whether the memory suffices. If `taken` is set, a step fits if the
  // upper estimate is within the capacity, and may fit if only the lower
  // estimate is within it. Otherwise the sum of the known components is
  // compared with the capacity. Returns nullopt if the capacity is unknown, if
  // the sum overflows, or if the known components fit but another component is
  // unknown.
  std::optional<Fit> Verdict() const;
  // Returns the verdict that follows if the unknown components take no memory.
  std::optional<Fit> VerdictOfKnown() const;
  std::optional<bool> Fits() const;
};

Memory MemoryOf(const CostInputs& work, const Settings& settings);

// Returns the bytes of the KV cache on a device in a serving mode. Returns
// nullopt, and adds the missing facts to `unknown`, if a layer keeps something
// else than keys and values, such as the state of a mixer.
std::optional<int64_t> CacheBytesOf(const CostInputs& work,
                                    const Settings& settings,
                                    std::vector<NotKnown>& unknown);

// Adds the bytes of a class of parameters to `held`. `each` are the bytes of a
// device's shard of one parameter; nullopt if they are unknown.
void Hold(const ParamClass& param, std::optional<int64_t> each,
          HeldBytes& held);

// Returns the bytes of memory of a device of a mesh: the memory in the settings
// or, if it is not set, the memory that the mesh file states, or else that of
// the profile. A profile in the settings takes precedence over the profile that
// the mesh file names.
std::optional<int64_t> CapacityOf(const Device& device,
                                  const Settings& settings);

// Returns the memory that a training step takes. `states` are the bytes that
// the device holds throughout the step, such as parameters, and `peak` is the
// peak of its other bytes.
TakenBytes TakenOf(const CostInputs& work, const Settings& settings,
                   int64_t states, const Peak& peak);

// Returns `bytes` times `factor`: the bytes that an allocator reserves for
// tensors of `bytes`. Returns INT64_MAX if the product overflows.
int64_t Grown(int64_t bytes, double factor);

// Returns the bytes that a GPU needs in addition to tensors: 1 GB for its
// context, and 0.7 GB for the communicators of each mesh axis of more than one
// device. Returns 0 for a stack without a context (StackMemory::context).
// Source: NVIDIA/nccl issues 964 and 1685.
int64_t ContextBytes(const CostInputs& work, const Stack& stack);

// The bytes that a device holds for its shard of one parameter. An entry is
// nullopt if a size is unknown or if the bytes overflow 64 bits.
struct StateBytes {
  std::optional<int64_t> parameter, gradient, optimizer;
  // The bytes of the optimizer's states that the host holds for the device.
  // `optimizer` is then 0.
  std::optional<int64_t> offloaded = 0;
};
// Returns the bytes of a parameter, its gradient and its optimizer states. The
// bytes of the gradient and of the states are 0 in serving, and for parameters
// that are not trained, such as the integers of quantised weights.
StateBytes StatesOf(const CostInputs& work, const ParamClass& param,
                    const Settings& settings);

bool IsTrained(const ParamClass& param);
// Returns the number of replicas of the parameter, over which ZeRO divides its
// states.
int64_t ReplicaParts(const CostInputs& work, const ParamClass& param);

}  // namespace shardc::cost

#endif  // SHARDC_COST_MEMORY_H_
