// The last part of a name is its leaf, and one of the three before it says
// its role; names that mean one thing in attention and another in an MLP are
// looked up by whether a part before speaks of attention:
//
//   layers/*/self_attn/o_proj/kernel  ->  kernel, output, in attention
//   h.*.attn.c_proj.weight            ->  weight, output, Conv1D
//   h.*.mlp.c_proj.weight             ->  weight, down
#include "lint/analysis/roles.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "model/name.h"

namespace shardc {
namespace {

struct NamedLeaf {
  std::string_view name;
  Leaf leaf;
};
constexpr NamedLeaf kLeaves[] = {
    {"weight", Leaf::kWeight},
    {"qweight", Leaf::kWeight},
    {"weight_packed", Leaf::kWeight},
    {"kernel", Leaf::kKernel},
    {"bias", Leaf::kBias},
    {"scale", Leaf::kScale},
    {"scales", Leaf::kScale},
    {"weight_scale", Leaf::kScale},
    {"weight_scale_inv", Leaf::kScale},
    {"kernel_scale", Leaf::kScale},
    {"zero_point", Leaf::kZeroPoint},
    {"weight_zero_point", Leaf::kZeroPoint},
    {"qzeros", Leaf::kZeroPoint},
    {"zeros", Leaf::kZeroPoint},
    {"biases", Leaf::kZeroPoint},
    {"embedding", Leaf::kEmbeddingTable},
};

// Names that mean one role wherever they stand.
struct NamedRole {
  std::string_view name;
  Role role;
};
constexpr NamedRole kRoles[] = {
    {"q_proj", Role::kQuery},
    {"query", Role::kQuery},
    {"query_proj", Role::kQuery},
    {"wq", Role::kQuery},
    {"k_proj", Role::kKey},
    {"key", Role::kKey},
    {"key_proj", Role::kKey},
    {"wk", Role::kKey},
    {"v_proj", Role::kValue},
    {"value", Role::kValue},
    {"value_proj", Role::kValue},
    {"wv", Role::kValue},
    {"o_proj", Role::kOutput},
    {"qkv_proj", Role::kFusedQkv},
    {"query_key_value", Role::kFusedQkv},
    {"c_attn", Role::kFusedQkv},
    {"Wqkv", Role::kFusedQkv},
    {"w_qkv", Role::kFusedQkv},
    {"qkv", Role::kFusedQkv},
    {"in_proj_qkv", Role::kFusedQkv},
    {"gate_proj", Role::kGate},
    {"wi_0", Role::kGate},
    {"up_proj", Role::kUp},
    {"wi_1", Role::kUp},
    {"dense_h_to_4h", Role::kUp},
    {"c_fc", Role::kUp},
    {"fc1", Role::kUp},
    {"fc_in", Role::kUp},
    {"down_proj", Role::kDown},
    {"dense_4h_to_h", Role::kDown},
    {"fc2", Role::kDown},
    {"fc_out", Role::kDown},
    {"gate_up_proj", Role::kFusedGateUp},
    {"w13", Role::kFusedGateUp},
    {"embed_tokens", Role::kEmbedding},
    {"wte", Role::kEmbedding},
    {"word_embeddings", Role::kEmbedding},
    {"embed_in", Role::kEmbedding},
    {"tok_embeddings", Role::kEmbedding},
    {"token_embedding", Role::kEmbedding},
    {"lm_head", Role::kHead},
    {"embed_out", Role::kHead},
    {"router", Role::kRouter},
    {"shared_expert_gate", Role::kRouter},
};
// Names that mean different things in attention and MLP.
constexpr NamedRole kAttentionRoles[] = {
    {"dense", Role::kOutput}, {"out_proj", Role::kOutput},
    {"wo", Role::kOutput},    {"c_proj", Role::kOutput},
    {"out", Role::kOutput},   {"o", Role::kOutput},
    {"q", Role::kQuery},      {"k", Role::kKey},
    {"v", Role::kValue},
};
constexpr NamedRole kMlpRoles[] = {
    {"w1", Role::kGate},     {"w3", Role::kUp},     {"w2", Role::kDown},
    {"c_proj", Role::kDown}, {"wo", Role::kDown},   {"gate", Role::kRouter},
    {"up", Role::kUp},       {"down", Role::kDown},
};

template <size_t N>
Role Named(const NamedRole (&table)[N], std::string_view word) {
  const auto* found =
      std::find_if(std::begin(table), std::end(table),
                   [&](const NamedRole& entry) { return entry.name == word; });
  return found == std::end(table) ? Role::kOther : found->role;
}

Leaf LeafOf(std::string_view word) {
  const auto* found =
      std::find_if(std::begin(kLeaves), std::end(kLeaves),
                   [&](const NamedLeaf& leaf) { return leaf.name == word; });
  return found == std::end(kLeaves) ? Leaf::kOther : found->leaf;
}

bool IsAttentionPart(std::string_view word) {
  return word.find("attn") != std::string_view::npos ||
         word.find("attention") != std::string_view::npos ||
         word.find("Attention") != std::string_view::npos;
}

bool IsNormPart(std::string_view word) {
  return word.find("norm") != std::string_view::npos ||
         word.starts_with("ln_") || word == "ln" || word == "ln1" ||
         word == "ln2";
}

std::string Join(const std::vector<std::string_view>& parts, size_t skip,
                 std::string_view stand_in, char separator, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out += separator;
    out += i == skip ? stand_in : parts[i];
  }
  return out;
}

}  // namespace

GroupRole RoleOf(std::string_view name, char separator) {
  const std::vector<std::string_view> parts = SplitName(name, separator);
  GroupRole out;
  out.leaf = LeafOf(parts.back());
  size_t last = parts.size();
  if (out.leaf != Leaf::kOther && parts.size() > 1) --last;
  out.attention = std::any_of(
      parts.begin(), parts.begin() + static_cast<long>(last), IsAttentionPart);
  out.expert = std::any_of(parts.begin(), parts.end(), [](auto part) {
    return part == "experts" || part == "local_experts";
  });
  size_t at = parts.size();
  for (size_t i = last; i > 0 && out.role == Role::kOther;) {
    --i;
    if (parts[i] == "*") continue;
    if (IsNormPart(parts[i])) {
      out.role = Role::kNorm;
      break;
    }
    out.role = Named(kRoles, parts[i]);
    if (out.role == Role::kOther) {
      out.role = out.attention ? Named(kAttentionRoles, parts[i])
                               : Named(kMlpRoles, parts[i]);
    }
    if (out.role != Role::kOther) at = i;
    if (i + 2 < last) break;  // a role stands near the end of the path
  }
  out.conv1d =
      at < parts.size() &&
      (parts[at] == "c_attn" || parts[at] == "c_fc" || parts[at] == "c_proj");
  // Kernels are [in, out], torch weights [out, in], a Conv1D's turned round.
  if (out.leaf == Leaf::kKernel) out.in_first = true;
  if (out.leaf == Leaf::kWeight) out.in_first = out.conv1d;
  out.siblings = Join(parts, at, "?", separator, parts.size());
  out.module = Join(parts, parts.size(), "", separator, last);
  return out;
}

int OutDim(const GroupRole& role, int rank) {
  if (role.leaf == Leaf::kBias) return rank - 1;
  if (rank < 2 || !role.in_first) return -1;
  return *role.in_first ? rank - 1 : rank - 2;
}

int InDim(const GroupRole& role, int rank) {
  if (rank < 2 || !role.in_first) return -1;
  return *role.in_first ? rank - 2 : rank - 1;
}

}  // namespace shardc
