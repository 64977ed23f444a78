// The bytes that devices hold, by component.
#ifndef SHARDC_COST_MEMORY_H_
#define SHARDC_COST_MEMORY_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/activations.h"
#include "cost/inputs.h"
#include "cost/settings.h"

namespace shardc::cost {

enum class Component : uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kCache,
  kActivations,
  kLogits,
  kGathered,  // gathered weights of the layer that is computed
};
inline constexpr size_t kComponentCount = 7;
inline constexpr std::array<std::string_view, kComponentCount> kComponentNames =
    {"parameters",  "gradients", "optimizer", "kv_cache",
     "activations", "logits",    "gathered"};

// Absent: unknown, and the notes have the reason.
struct Held {
  std::array<std::optional<int64_t>, kComponentCount> by;
  // The sum of the known components.
  std::optional<int64_t> total;
  const std::optional<int64_t>& Of(Component one) const {
    return by[static_cast<size_t>(one)];
  }
};

struct Memory {
  Held most, least;                 // of the fullest and emptiest device
  std::optional<int64_t> capacity;  // of a device
  std::optional<Activations> activations;
  std::vector<std::string> unknown;  // what is unknown, and why

  std::optional<bool> Fits() const;
};

Memory MemoryOf(const CostInputs& work, const Settings& settings);

}  // namespace shardc::cost

#endif  // SHARDC_COST_MEMORY_H_
