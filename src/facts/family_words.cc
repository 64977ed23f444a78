// The words are not in roles/role.h, because other families have some of them
// with another meaning. What they suggest is likely, and needs shapes that
// agree where a reader must be certain. For example:
//
//   layers.*.self_attn.W_pack.weight                  query, key and value
//   layers.*.block_sparse_moe.input_linear.weight     gate and up of experts
//   output.weight, outside of layers                  the output head
//   layers/mlp/linear                                 the down projection
#include "facts/family_words.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/name.h"
#include "roles/role.h"

namespace shardc::facts {
namespace {

enum class Where : uint8_t { kAttention, kElsewhere };

struct FamilyWord {
  std::string_view word;
  Where where;
  Role role;
};
constexpr std::array<FamilyWord, 7> kWords = {{
    {"W_pack", Where::kAttention, Role::kFusedQkv},  // Baichuan
    {"wqkv", Where::kAttention, Role::kFusedQkv},    // InternLM2
    // Granite has these names in its experts and in the MLP that all tokens
    // share.
    {"input_linear", Where::kElsewhere, Role::kFusedGateUp},
    {"output_linear", Where::kElsewhere, Role::kDown},
    // ModernBERT.
    {"Wi", Where::kElsewhere, Role::kFusedGateUp},
    {"Wo", Where::kElsewhere, Role::kDown},
    {"Wo", Where::kAttention, Role::kOutput},
}};

void SetRole(Role to, ParameterRole& role) {
  role.role = role.module_role = to;
  role.confidence = Confidence::kLikely;
}

// Returns whether the parts end in `mlp/linear` or `mlp/linear/w`, the names of
// Gemma's down projection in its publisher's code.
bool IsGemmaDown(const std::vector<std::string_view>& parts) {
  const size_t last = parts.size() - (parts.back() == "w" ? 1 : 0);
  return last >= 2 && parts[last - 1] == "linear" && parts[last - 2] == "mlp";
}

}  // namespace

void UseFamilyWord(std::string_view name, char separator, int rank,
                   ParameterRole& role) {
  if (rank < 0) return;
  const std::vector<std::string_view> parts = SplitName(name, separator);
  if (IsGemmaDown(parts) && role.module_role == Role::kOther) {
    SetRole(Role::kDown, role);
    return;
  }
  if (!IsWeight(role) || parts.size() < 2) return;
  const std::string_view module = parts[parts.size() - 2];
  // `output` outside of layers is the output head. In layers it is a projection
  // of attention or of an MLP. A `*` in the name or a third dimension (of
  // scanned layers) shows that the tensor is in layers.
  if (module == "output" && role.module_role == Role::kDown && rank == 2 &&
      name.find('*') == name.npos) {
    SetRole(Role::kHead, role);
    return;
  }
  if (role.module_role != Role::kOther) return;
  const Where where = role.attention ? Where::kAttention : Where::kElsewhere;
  for (const FamilyWord& one : kWords) {
    if (one.word != module || one.where != where) continue;
    SetRole(one.role, role);
    // The weights of experts are [experts, out, in]. The block that all tokens
    // share has a single matrix.
    const bool stacked = module.ends_with("_linear") && rank == 3;
    if (stacked && name.find("shared") == name.npos) role.expert = true;
    return;
  }
}

}  // namespace shardc::facts
