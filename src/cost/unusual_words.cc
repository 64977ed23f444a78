// Recognises roles by words that only one or two families of models use. These
// words only decide which products and activations a step has. They are not in
// roles/words.h: the words of that file are also used to suggest rules, where a
// wrong role is harmful. For example:
//
//   layers.*.self_attn.W_pack.weight                  query, key and value
//   layers.*.block_sparse_moe.input_linear.weight     gate and up of experts
//   output.weight, outside of layers                  the output head
//   layers/mlp/linear                                 the down projection
#include "cost/unusual_words.h"

#include <array>
#include <string_view>
#include <vector>

#include "model/name.h"

namespace shardc::cost {
namespace {

enum class Where : uint8_t { kAttention, kElsewhere };

struct UnusualWord {
  std::string_view word;
  Where where;
  Role role;
};
constexpr std::array<UnusualWord, 7> kWords = {{
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

void SetRole(ParamClass& param, Role role) {
  param.role.role = param.role.module_role = role;
  param.role.confidence = Confidence::kLikely;
}

// Returns whether the parts end in `mlp/linear` or `mlp/linear/w`, the names of
// Gemma's down projection in its publisher's code.
bool IsGemmaDown(const std::vector<std::string_view>& parts) {
  const size_t last = parts.size() - (parts.back() == "w" ? 1 : 0);
  return last >= 2 && parts[last - 1] == "linear" && parts[last - 2] == "mlp";
}

}  // namespace

void UseUnusualWord(ParamClass& param, char separator) {
  const ParameterRole& role = param.role;
  if (!param.type.shape) return;
  const std::vector<std::string_view> parts = SplitName(param.name, separator);
  if (IsGemmaDown(parts) && role.module_role == Role::kOther) {
    SetRole(param, Role::kDown);
    return;
  }
  if (!shardc::IsWeight(role) || parts.size() < 2) return;
  const std::string_view module = parts[parts.size() - 2];
  // `output` outside of layers is the output head. In layers it is a projection
  // of attention or of an MLP. A `*` in the name or a third dimension (of
  // scanned layers) shows that the tensor is in layers.
  if (module == "output" && role.module_role == Role::kDown &&
      param.Rank() == 2 && param.name.find('*') == std::string::npos) {
    SetRole(param, Role::kHead);
    return;
  }
  if (role.module_role != Role::kOther) return;
  const Where where = role.attention ? Where::kAttention : Where::kElsewhere;
  for (const UnusualWord& one : kWords) {
    if (one.word != module || one.where != where) continue;
    SetRole(param, one.role);
    // The weights of experts are [experts, out, in]. The block that all tokens
    // share has a single matrix.
    const bool stacked = module.ends_with("_linear") && param.Rank() == 3;
    if (stacked && param.name.find("shared") == std::string::npos) {
      param.role.expert = true;
    }
    return;
  }
}

bool IsUnnamedMatrix(const ParamClass& param) {
  const ParameterRole& role = param.role;
  // A number in the name (`*`) shows that the matrix is in a layer. Tables of
  // embeddings are excluded, because they are outside of layers, but may have a
  // number too: `codebook_embeddings.*.weight`.
  return shardc::IsWeight(role) && role.role == Role::kOther &&
         role.module_role == Role::kOther && param.type.shape &&
         param.Rank() == 2 && param.SizeAt(0) > 1 && param.SizeAt(1) > 1 &&
         param.name.find('*') != std::string::npos &&
         param.name.find("embed") == std::string::npos;
}

}  // namespace shardc::cost
