// Lints know the commonest names; the tables here add those of other trees. A
// last part such as `gate_up_proj_bias` is read as the two that it joins:
//
//   experts.gate_up_proj_bias  ->  experts.gate_up_proj.bias, a bias
//   blk.*.attn_q.weight        ->  query, though lints know no such word
#include "suggest/words.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

namespace shardc::suggest {
namespace {

using Word = std::string_view;

struct NamedPart {
  Word word;
  Part part;
};

// Whatever stands around them.
constexpr NamedPart kAnywhere[] = {
    {"q_b_proj", Part::kLatentUp},
    {"wq_b", Part::kLatentUp},
    {"kv_b_proj", Part::kLatentUp},
    {"wkv_b", Part::kLatentUp},
    {"q_a_proj", Part::kLatent},
    {"wq_a", Part::kLatent},
    {"kv_a_proj_with_mqa", Part::kLatent},
    {"kv_a_proj", Part::kLatent},
    {"wkv_a", Part::kLatent},
    {"fused_qkv_a_proj_with_mqa", Part::kLatent},
    {"to_q", Part::kQuery},
    {"q_lin", Part::kQuery},
    {"attn_q", Part::kQuery},
    {"q_einsum", Part::kQuery},
    {"query_layer", Part::kQuery},
    {"to_k", Part::kKey},
    {"k_lin", Part::kKey},
    {"attn_k", Part::kKey},
    {"key_layer", Part::kKey},
    {"to_v", Part::kValue},
    {"v_lin", Part::kValue},
    {"attn_v", Part::kValue},
    {"value_layer", Part::kValue},
    {"kv_einsum", Part::kKeyValue},
    {"kv_proj", Part::kKeyValue},
    {"to_kv", Part::kKeyValue},
    {"wkv", Part::kKeyValue},
    {"key_value", Part::kKeyValue},
    {"to_qkv", Part::kQkv},
    {"linear_qkv", Part::kQkv},
    {"attn_qkv", Part::kQkv},
    {"qkv_einsum", Part::kQkv},
    {"in_proj_qkv", Part::kQkv},
    {"to_out", Part::kOutput},
    {"out_lin", Part::kOutput},
    {"attn_output", Part::kOutput},
    {"attn_vec_einsum", Part::kOutput},
    {"gating_einsum", Part::kGateUp},
    {"gate_up", Part::kGateUp},
    {"up_gate_proj", Part::kGateUp},
    {"wi_fused", Part::kGateUp},
    {"wi", Part::kUp},
    {"lin1", Part::kUp},
    {"linear1", Part::kUp},
    {"linear_1", Part::kUp},
    {"linear_fc1", Part::kUp},
    {"w_in", Part::kUp},
    {"ffn_up", Part::kUp},
    {"ffn_gate", Part::kUp},
    {"ffn_up_exps", Part::kUp},
    {"ffn_gate_exps", Part::kUp},
    {"intermediate", Part::kUp},
    {"lin2", Part::kDown},
    {"linear2", Part::kDown},
    {"linear_2", Part::kDown},
    {"linear_fc2", Part::kDown},
    {"w_out", Part::kDown},
    {"ffn_down", Part::kDown},
    {"ffn_down_exps", Part::kDown},
    {"ffn_gate_inp", Part::kRouter},
    {"token_embd", Part::kEmbedding},
    {"token_embedder", Part::kEmbedding},
    {"tokens_embed", Part::kEmbedding},
    {"input_embedding", Part::kEmbedding},
    {"word_embedding", Part::kEmbedding},
    {"token_emb", Part::kEmbedding},
    {"embeddings_word", Part::kEmbedding},
    {"shared", Part::kEmbedding},
    {"proj_out", Part::kHead},
    {"output_layer", Part::kHead},
    {"logits_dense", Part::kHead},
};
constexpr NamedPart kInAttention[] = {
    {"proj", Part::kOutput},   {"linear_proj", Part::kOutput},
    {"output", Part::kOutput}, {"in_proj", Part::kQkv},
    {"kv", Part::kKeyValue},   {"w_o", Part::kOutput},
    {"w_q", Part::kQuery},     {"w_k", Part::kKey},
    {"w_v", Part::kValue},     {"out_projection", Part::kOutput},
};
constexpr NamedPart kOutside[] = {
    {"output", Part::kDown},  {"gate_linear", Part::kUp},
    {"up_linear", Part::kUp}, {"down_linear", Part::kDown},
    {"v1", Part::kUp},
};
// Only right before the leaf.
constexpr NamedPart kStems[] = {
    {"embed", Part::kEmbedding},    {"embedding", Part::kEmbedding},
    {"embedder", Part::kEmbedding}, {"head", Part::kHead},
    {"unembed", Part::kHead},
};
constexpr Word kPositions[] = {"wpe",
                               "embed_positions",
                               "position_embeddings",
                               "pos_embed",
                               "position_embedding",
                               "positional_embedding",
                               "pos_emb",
                               "relative_attention_bias",
                               "position_ids",
                               "rel_pos_bias",
                               "pos_embedding",
                               "relative_position_bias_table",
                               "position_embd",
                               "relpos_bias"};
constexpr Word kAdapters[] = {"lora_A", "lora_B",    "lora_a",
                              "lora_b", "lora_down", "lora_up"};
constexpr Word kMixers[] = {"mamba", "mixer", "ssm"};
constexpr Word kMixerWeights[] = {"in_proj",   "x_proj", "dt_proj",
                                  "conv1d",    "A_log",  "in_proj_qkvz",
                                  "in_proj_ba"};
constexpr Word kSinks[] = {"sinks", "sink", "attention_sinks", "attn_sink"};
constexpr Word kHeadNorms[] = {"q_norm", "query_norm", "q_layernorm", "norm_q",
                               "k_norm", "key_norm",   "k_layernorm", "norm_k"};
constexpr Word kExperts[] = {"experts", "local_experts"};

// Endings of a last part that join it with what it belongs to.
struct Ending {
  Word text;
  Word leaf;
  bool blocks = false;
};
constexpr Ending kEndings[] = {{"_weight_scale_inv", "weight_scale_inv"},
                               {"_scale_inv", "weight_scale_inv"},
                               {"_weight_scale", "weight_scale"},
                               {"_weight", "weight"},
                               {"_kernel", "kernel"},
                               {"_bias", "bias"},
                               {"_scales", "scales"},
                               {"_scale", "scale"},
                               {"_zeros", "zeros"},
                               {"_blocks", "weight", true}};

template <size_t N>
bool Holds(const Word (&words)[N], Word word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

template <size_t N>
Part Find(const NamedPart (&table)[N], Word word) {
  const auto* at =
      std::find_if(std::begin(table), std::end(table),
                   [&](const NamedPart& entry) { return entry.word == word; });
  return at == std::end(table) ? Part::kOther : at->part;
}

Part PartOf(Role role) {
  switch (role) {
    case Role::kQuery:
      return Part::kQuery;
    case Role::kKey:
      return Part::kKey;
    case Role::kValue:
      return Part::kValue;
    case Role::kOutput:
      return Part::kOutput;
    case Role::kFusedQkv:
      return Part::kQkv;
    case Role::kGate:
    case Role::kUp:
      return Part::kUp;
    case Role::kDown:
      return Part::kDown;
    case Role::kFusedGateUp:
      return Part::kGateUp;
    case Role::kEmbedding:
      return Part::kEmbedding;
    case Role::kHead:
      return Part::kHead;
    case Role::kRouter:
      return Part::kRouter;
    case Role::kNorm:
      return Part::kVector;
    case Role::kOther:
      break;
  }
  return Part::kOther;
}

// What lints call a part that they have no word for, so that it takes part in
// the vote on orientation.
Role RoleOf(Part part) {
  switch (part) {
    case Part::kQuery:
      return Role::kQuery;
    case Part::kKey:
      return Role::kKey;
    case Part::kValue:
      return Role::kValue;
    case Part::kQkv:
      return Role::kFusedQkv;
    case Part::kOutput:
      return Role::kOutput;
    case Part::kUp:
      return Role::kUp;
    case Part::kGateUp:
      return Role::kFusedGateUp;
    case Part::kDown:
      return Role::kDown;
    case Part::kEmbedding:
      return Role::kEmbedding;
    case Part::kHead:
      return Role::kHead;
    default:
      return Role::kOther;
  }
}

std::string Join(const std::vector<Word>& parts, size_t count, char separator) {
  std::string out;
  for (size_t i = 0; i < count && i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

// The word that says the role stands among the last three; nothing found: -1.
int FindWord(const std::vector<Word>& parts, size_t last, bool attention,
             Part& part) {
  for (size_t i = last; i > 0;) {
    --i;
    if (parts[i] == "*") continue;
    part = Find(kAnywhere, parts[i]);
    if (part == Part::kOther && i + 1 == last) part = Find(kStems, parts[i]);
    if (part == Part::kOther) {
      part =
          attention ? Find(kInAttention, parts[i]) : Find(kOutside, parts[i]);
    }
    if (part != Part::kOther) return static_cast<int>(i);
    if (i + 2 < last) break;
  }
  return -1;
}

// Up to the first part of attention, or to the parent of the role's part.
std::string FamilyOf(const std::vector<Word>& parts, size_t role_at,
                     bool attention, char separator) {
  if (attention) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const bool here = parts[i].find("attn") != Word::npos ||
                        parts[i].find("ttention") != Word::npos;
      if (here && i < role_at) return Join(parts, i + 1, separator);
    }
  }
  return Join(parts, role_at, separator);
}

// A part that is `stem` joined with `leaf`, as two.
struct Split {
  std::vector<Word> parts;
  bool blocks = false;
};

Split SplitLast(const std::vector<Word>& parts) {
  Split out{parts, false};
  for (const Ending& ending : kEndings) {
    const Word last = parts.back();
    if (!last.ends_with(ending.text) || last.size() == ending.text.size()) {
      continue;
    }
    out.parts.back() = last.substr(0, last.size() - ending.text.size());
    out.parts.push_back(ending.leaf);
    out.blocks = ending.blocks;
    break;
  }
  return out;
}

void FindExperts(const Kind& kind, Named& out) {
  for (size_t i = 0; i < kind.parts.size(); ++i) {
    if (!Holds(kExperts, kind.parts[i]) && !kind.parts[i].ends_with("_exps")) {
      continue;
    }
    out.below_experts = true;
    out.counted_experts = i + 1 < kind.parts.size() && kind.parts[i + 1] == "*";
  }
}

}  // namespace

bool IsAttention(Part part) {
  switch (part) {
    case Part::kQuery:
    case Part::kKey:
    case Part::kValue:
    case Part::kKeyValue:
    case Part::kQkv:
    case Part::kOutput:
    case Part::kLatentUp:
      return true;
    default:
      return false;
  }
}

bool IsMlp(Part part) {
  return part == Part::kUp || part == Part::kGateUp || part == Part::kDown;
}

Named ReadName(const Kind& kind, char separator) {
  Named out;
  FindExperts(kind, out);
  std::vector<Word> parts = kind.parts;
  out.role = shardc::RoleOf(kind.name, separator);
  out.linted =
      out.role.role != Role::kOther &&
      (out.role.leaf == Leaf::kWeight || out.role.leaf == Leaf::kKernel);
  if (out.role.leaf == Leaf::kOther) {
    Split split = SplitLast(parts);
    if (split.parts.size() > parts.size()) {
      parts = std::move(split.parts);
      out.blocks = split.blocks;
      out.role =
          shardc::RoleOf(Join(parts, parts.size(), separator), separator);
    }
  }
  const bool has_leaf = out.role.leaf != Leaf::kOther && parts.size() > 1;
  const size_t last = parts.size() - (has_leaf ? 1 : 0);
  out.stem = Join(parts, last, separator);
  out.part = PartOf(out.role.role);
  size_t at = last > 0 ? last - 1 : 0;
  if (out.part != Part::kOther) {
    const size_t mark = out.role.siblings.find('?');
    if (mark != std::string::npos) {
      at = static_cast<size_t>(std::count(
          out.role.siblings.begin(),
          out.role.siblings.begin() + static_cast<long>(mark), separator));
    }
  } else {
    const int found = FindWord(parts, last, out.role.attention, out.part);
    if (found >= 0) at = static_cast<size_t>(found);
    out.role.role = RoleOf(out.part);
  }
  out.known = out.part != Part::kOther;
  out.family = FamilyOf(parts, at, out.role.attention, separator);
  const auto any = [&](const auto& words) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](Word part) { return Holds(words, part); });
  };
  if (any(kPositions)) {
    out.part = Part::kPosition;
  } else if (any(kAdapters)) {
    out.part = Part::kAdapter;
  } else if (any(kSinks) || any(kHeadNorms)) {
    out.part = Part::kHeadVector;
  } else if (any(kMixerWeights) && out.part != Part::kQkv &&
             (any(kMixers) || !out.role.attention)) {
    out.part = Part::kMixer;
  }
  if (out.part == Part::kOther && kind.rank() < 2) out.part = Part::kVector;
  if (out.role.leaf == Leaf::kBias && kind.rank() < 3) out.part = Part::kBias;
  const bool scale =
      out.role.leaf == Leaf::kScale || out.role.leaf == Leaf::kZeroPoint;
  if (scale && out.role.role != Role::kNorm) out.part = Part::kScale;
  return out;
}

}  // namespace shardc::suggest
