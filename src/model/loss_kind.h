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
  // No kind was chosen: the loss of the rules' `model:` section or, without
  // one, of the training software stack is used.
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
