// Conditions that the sizes of a model must meet. For example, the number of KV
// heads must divide the number of attention heads. The reader of config.json
// refuses other sizes. A step whose sizes are not from a config.json is checked
// against the same conditions.
#ifndef SHARDC_MODEL_LEGAL_SIZES_H_
#define SHARDC_MODEL_LEGAL_SIZES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardc {

// The largest size that a model's dimension may have, far above real sizes.
inline constexpr int64_t kLargestModelSize = int64_t{1} << 26;
// The largest magnitude of a model's other numbers, such as a rotary base.
inline constexpr double kLargestModelNumber = 1e12;

// The sizes to check. A size that is nullopt is not checked.
struct ModelSizes {
  std::optional<int64_t> heads = {}, kv_heads = {};
  std::optional<int64_t> head_dim = {}, rotary_dim = {};
  // The number of experts; 0 for a model without experts.
  std::optional<int64_t> experts = {}, experts_per_token = {};
};

struct IllegalSize {
  enum class Which : uint8_t { kKvHeads, kExpertsPerToken, kRotaryDim };
  Which which = Which::kKvHeads;  // The size that breaks a condition.
  std::string message, help;
};

// Returns one record for each broken condition. The number of KV heads must
// divide the number of heads. A token goes to at least one expert and at most
// to all. The rotary dimension is even, above 0 and no larger than a head.
std::vector<IllegalSize> IllegalSizes(const ModelSizes& sizes);

// Returns the number of elements of a head that rotary embeddings rotate:
// head_dim * fraction, rounded down.
int64_t RotaryDim(int64_t head_dim, double fraction);

}  // namespace shardc

#endif  // SHARDC_MODEL_LEGAL_SIZES_H_
