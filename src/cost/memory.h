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
#include "cost/peak.h"
#include "cost/settings.h"
#include "model/not_known.h"

namespace shardc::cost {

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
  // The sum of the known components; nullopt if it overflows.
  std::optional<int64_t> total;
  const std::optional<int64_t>& Of(Component one) const {
    return by[static_cast<size_t>(one)];
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
  // Set in training if the activations and the sizes of all parameters and
  // gathered weights are known.
  std::optional<TakenBytes> taken;
  std::optional<int64_t> capacity;  // bytes of memory of a device
  std::optional<Activations> activations;
  std::optional<GatheredWeights> weights;  // set only in training
  // The facts that the components need and that are not known.
  std::vector<NotKnown> unknown;
  // Whether the known components are lower bounds, because they leave out
  // parameters whose roles are not known (CostInputs::not_known).
  bool at_least = false;

  // Returns the bytes that a device is expected to use. If `taken` is set, they
  // are taken->expected. Otherwise they are the sum of the known components, or
  // nullopt if the sum overflows.
  std::optional<int64_t> Expected() const {
    return taken ? std::optional(taken->expected) : most.total;
  }
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

}  // namespace shardc::cost

#endif  // SHARDC_COST_MEMORY_H_
