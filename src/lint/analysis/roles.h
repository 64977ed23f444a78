// What a parameter is for, read from its name: projections of attention and
// MLP, embeddings, heads of output, scales of quantisation.
#ifndef SHARDC_LINT_ANALYSIS_ROLES_H_
#define SHARDC_LINT_ANALYSIS_ROLES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardc {

enum class Role : uint8_t {
  kOther,
  kQuery,
  kKey,
  kValue,
  kOutput,
  kFusedQkv,
  kGate,
  kUp,
  kDown,
  kFusedGateUp,
  kEmbedding,
  kHead,
  kRouter,
  kNorm,
};

// What stands at the end of the path.
enum class Leaf : uint8_t {
  kWeight,
  kKernel,
  kBias,
  kScale,
  kZeroPoint,
  kEmbeddingTable,
  kOther
};

struct GroupRole {
  Role role = Role::kOther;
  Leaf leaf = Leaf::kOther;
  bool expert = false;  // below a part named `experts`
  bool attention = false;
  bool conv1d = false;  // a name of GPT-2's, whose `weight` is [in, out]
  // Laid out [in, out]: as the name says it, until sizes are looked at
  // (orientation.h). Nothing where neither tells.
  std::optional<bool> in_first;
  // The path with the role's part as `?`, and the leaf: siblings share it.
  std::string siblings;
  // The path without the leaf: a weight and its bias or scale share it.
  std::string module;
};

GroupRole RoleOf(std::string_view name, char separator);

// The dimension that leaves or enters a projection; leading dimensions are
// experts or layers. -1 where the layout cannot be told.
int OutDim(const GroupRole& role, int rank);
int InDim(const GroupRole& role, int rank);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_ROLES_H_
