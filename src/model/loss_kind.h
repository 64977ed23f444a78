// Lists the ways of computing the loss from the logits. They differ in how many
// copies of the logits are in memory.
#ifndef SHARDC_MODEL_LOSS_KIND_H_
#define SHARDC_MODEL_LOSS_KIND_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace shardc {

enum class LossKind : uint8_t {
  // No kind was chosen. The kind is then that of the rules file's `model:`
  // section or, if it has none, that of the training software, such as
  // torchtitan.
  kStack,
  kEager,
  kCompiled,
  kFused
};
// The names of all kinds except kStack, in the order of the enumeration.
inline constexpr std::string_view kLossNames[] = {"eager", "compiled", "fused"};

inline std::optional<LossKind> LossNamed(std::string_view name) {
  for (size_t i = 0; i < std::size(kLossNames); ++i) {
    if (kLossNames[i] == name) return static_cast<LossKind>(i + 1);
  }
  return std::nullopt;
}

}  // namespace shardc

#endif  // SHARDC_MODEL_LOSS_KIND_H_
