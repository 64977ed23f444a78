// The roles of parameters, and the words of names that show a role. A word
// counts only as a whole part of a name.
#include "roles/role.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "model/name.h"
#include "source/list.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc {

bool IsAttention(Role role) {
  switch (role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kFusedKeyValue:
    case Role::kFusedQkv:
    case Role::kOutput:
    case Role::kLatentUp:
      return true;
    default:
      return false;
  }
}

bool IsKeyOrValue(Role role) {
  return role == Role::kKey || role == Role::kValue ||
         role == Role::kFusedKeyValue;
}

bool IsMlp(Role role) {
  return role == Role::kGate || role == Role::kUp ||
         role == Role::kFusedGateUp || role == Role::kDown;
}

bool IsAdapter(Role role) {
  return role == Role::kAdapterDown || role == Role::kAdapterUp;
}

bool IsNorm(Role role) {
  return role == Role::kNorm || role == Role::kQueryNorm ||
         role == Role::kKeyNorm || role == Role::kLatentNorm;
}

bool IsHeadVector(Role role) {
  return role == Role::kSink || role == Role::kQueryNorm ||
         role == Role::kKeyNorm;
}

bool TakesWidth(Role role) {
  switch (role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kFusedQkv:
    case Role::kGate:
    case Role::kUp:
    case Role::kFusedGateUp:
    case Role::kHead:
    case Role::kRouter:
      return true;
    default:
      return false;
  }
}

bool GivesWidth(Role role) {
  return role == Role::kOutput || role == Role::kDown;
}

// The tables of words that occur in parameter names. A row of the largest table
// has a word, its role, the place in a name where the word has this role, and
// how certain the role is:
//
//   o_proj  kOutput    anywhere           sure
//   dense   kOutput    in attention       sure    (BERT, GPT-NeoX)
//   proj    kOutput    in attention       likely
//   embed   kEmbedding before the leaf    likely
//
// A word is sure if no known framework uses it for another role in this place.
// Tests in tests/roles use names of real models.

namespace {

struct NamedLeaf {
  std::string_view word;
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
    {"weight_scale_2", Leaf::kScale},
    {"weight_global_scale", Leaf::kScale},
    {"input_scale", Leaf::kScale},
    {"input_scale_ub", Leaf::kScale},
    {"input_global_scale", Leaf::kScale},
    {"SCB", Leaf::kScale},
    {"zero_point", Leaf::kZeroPoint},
    {"weight_zero_point", Leaf::kZeroPoint},
    {"qzeros", Leaf::kZeroPoint},
    {"zeros", Leaf::kZeroPoint},
    {"biases", Leaf::kZeroPoint},
    {"embedding", Leaf::kEmbeddingTable},
};

enum class Where : uint8_t {
  kAnywhere,
  kAttention,   // if a part of the path, such as `attn`, names attention
  kOutside,     // if no part of the path names attention
  kBeforeLeaf,  // if the word is the last part before the leaf
};
constexpr Where kAny = Where::kAnywhere;
constexpr Where kAttn = Where::kAttention;
constexpr Where kElse = Where::kOutside;
constexpr Where kLast = Where::kBeforeLeaf;
constexpr Confidence kSure = Confidence::kSure;
constexpr Confidence kLikely = Confidence::kLikely;

// Words are arrays, because each pointer in a table is relocated at every start
// of the program.
struct RoleWord {
  char word[28];
  Role role;
  Where where;
  Confidence confidence;
};
constexpr RoleWord kWords[] = {
    {"embed_tokens", Role::kEmbedding, kAny, kSure},
    {"wte", Role::kEmbedding, kAny, kSure},
    {"word_embeddings", Role::kEmbedding, kAny, kSure},
    {"embed_in", Role::kEmbedding, kAny, kSure},
    {"tok_embeddings", Role::kEmbedding, kAny, kSure},
    {"token_embedding", Role::kEmbedding, kAny, kSure},
    {"token_embd", Role::kEmbedding, kAny, kLikely},
    {"token_embedder", Role::kEmbedding, kAny, kLikely},
    {"tokens_embed", Role::kEmbedding, kAny, kLikely},
    {"input_embedding", Role::kEmbedding, kAny, kLikely},
    {"word_embedding", Role::kEmbedding, kAny, kLikely},
    {"token_emb", Role::kEmbedding, kAny, kLikely},
    {"embeddings_word", Role::kEmbedding, kAny, kLikely},
    {"shared", Role::kEmbedding, kAny, kLikely},
    {"embed", Role::kEmbedding, kLast, kLikely},
    {"embedding", Role::kEmbedding, kLast, kLikely},
    {"embedder", Role::kEmbedding, kLast, kLikely},

    {"lm_head", Role::kHead, kAny, kSure},
    {"embed_out", Role::kHead, kAny, kSure},
    {"proj_out", Role::kHead, kAny, kLikely},
    {"output_layer", Role::kHead, kAny, kLikely},
    {"logits_dense", Role::kHead, kAny, kLikely},
    {"head", Role::kHead, kLast, kLikely},
    {"unembed", Role::kHead, kLast, kLikely},

    {"q_proj", Role::kQuery, kAny, kSure},
    {"query", Role::kQuery, kAny, kSure},
    {"query_proj", Role::kQuery, kAny, kSure},
    {"wq", Role::kQuery, kAny, kSure},
    {"q", Role::kQuery, kAttn, kSure},
    {"to_q", Role::kQuery, kAny, kLikely},
    {"q_lin", Role::kQuery, kAny, kLikely},
    {"attn_q", Role::kQuery, kAny, kSure},
    {"q_einsum", Role::kQuery, kAny, kLikely},
    {"query_layer", Role::kQuery, kAny, kLikely},
    {"w_q", Role::kQuery, kAttn, kLikely},

    {"k_proj", Role::kKey, kAny, kSure},
    {"key", Role::kKey, kAny, kSure},
    {"key_proj", Role::kKey, kAny, kSure},
    {"wk", Role::kKey, kAny, kSure},
    {"k", Role::kKey, kAttn, kSure},
    {"to_k", Role::kKey, kAny, kLikely},
    {"k_lin", Role::kKey, kAny, kLikely},
    {"attn_k", Role::kKey, kAny, kSure},
    {"key_layer", Role::kKey, kAny, kLikely},
    {"w_k", Role::kKey, kAttn, kLikely},

    {"v_proj", Role::kValue, kAny, kSure},
    {"value", Role::kValue, kAny, kSure},
    {"value_proj", Role::kValue, kAny, kSure},
    {"wv", Role::kValue, kAny, kSure},
    {"v", Role::kValue, kAttn, kSure},
    {"to_v", Role::kValue, kAny, kLikely},
    {"v_lin", Role::kValue, kAny, kLikely},
    {"attn_v", Role::kValue, kAny, kSure},
    {"value_layer", Role::kValue, kAny, kLikely},
    {"w_v", Role::kValue, kAttn, kLikely},

    {"kv_einsum", Role::kFusedKeyValue, kAny, kLikely},
    {"kv_proj", Role::kFusedKeyValue, kAny, kLikely},
    {"to_kv", Role::kFusedKeyValue, kAny, kLikely},
    {"wkv", Role::kFusedKeyValue, kAny, kLikely},
    {"key_value", Role::kFusedKeyValue, kAny, kLikely},
    {"kv", Role::kFusedKeyValue, kAttn, kLikely},

    {"qkv_proj", Role::kFusedQkv, kAny, kSure},
    {"query_key_value", Role::kFusedQkv, kAny, kSure},
    {"c_attn", Role::kFusedQkv, kAny, kSure},
    {"Wqkv", Role::kFusedQkv, kAny, kSure},
    {"w_qkv", Role::kFusedQkv, kAny, kSure},
    {"wqkv", Role::kFusedQkv, kAny, kSure},
    {"qkv", Role::kFusedQkv, kAny, kSure},
    {"in_proj_qkv", Role::kFusedQkv, kAny, kSure},
    {"to_qkv", Role::kFusedQkv, kAny, kLikely},
    {"linear_qkv", Role::kFusedQkv, kAny, kLikely},
    {"attn_qkv", Role::kFusedQkv, kAny, kSure},
    {"qkv_einsum", Role::kFusedQkv, kAny, kLikely},
    {"in_proj", Role::kFusedQkv, kAttn, kLikely},

    {"o_proj", Role::kOutput, kAny, kSure},
    {"dense", Role::kOutput, kAttn, kSure},
    {"out_proj", Role::kOutput, kAttn, kSure},
    {"output_proj", Role::kOutput, kAttn, kSure},
    {"wo", Role::kOutput, kAttn, kSure},
    {"c_proj", Role::kOutput, kAttn, kSure},
    {"out", Role::kOutput, kAttn, kSure},
    {"o", Role::kOutput, kAttn, kSure},
    {"to_out", Role::kOutput, kAny, kLikely},
    {"out_lin", Role::kOutput, kAny, kLikely},
    {"attn_output", Role::kOutput, kAny, kSure},
    {"attn_vec_einsum", Role::kOutput, kAny, kLikely},
    {"proj", Role::kOutput, kAttn, kLikely},
    {"linear_proj", Role::kOutput, kAttn, kLikely},
    {"output", Role::kOutput, kAttn, kLikely},
    {"w_o", Role::kOutput, kAttn, kLikely},
    {"out_projection", Role::kOutput, kAttn, kLikely},

    {"q_a_proj", Role::kLatentDown, kAny, kSure},
    {"wq_a", Role::kLatentDown, kAny, kSure},
    {"kv_a_proj_with_mqa", Role::kLatentDown, kAny, kSure},
    {"kv_a_proj", Role::kLatentDown, kAny, kSure},
    {"wkv_a", Role::kLatentDown, kAny, kSure},
    {"fused_qkv_a_proj_with_mqa", Role::kLatentDown, kAny, kSure},
    {"q_b_proj", Role::kLatentUp, kAny, kSure},
    {"wq_b", Role::kLatentUp, kAny, kSure},
    {"kv_b_proj", Role::kLatentUp, kAny, kSure},
    {"wkv_b", Role::kLatentUp, kAny, kSure},

    {"router", Role::kRouter, kAny, kSure},
    {"shared_expert_gate", Role::kRouter, kAny, kSure},
    {"gate", Role::kRouter, kElse, kSure},
    {"ffn_gate_inp", Role::kRouter, kAny, kLikely},

    {"gate_proj", Role::kGate, kAny, kSure},
    {"wi_0", Role::kGate, kAny, kSure},
    {"w1", Role::kGate, kElse, kSure},
    {"ffn_gate", Role::kGate, kAny, kLikely},
    {"ffn_gate_exps", Role::kGate, kAny, kLikely},
    {"gate_linear", Role::kGate, kElse, kLikely},

    {"up_proj", Role::kUp, kAny, kSure},
    {"wi_1", Role::kUp, kAny, kSure},
    {"dense_h_to_4h", Role::kUp, kAny, kSure},
    {"c_fc", Role::kUp, kAny, kSure},
    {"fc1", Role::kUp, kAny, kSure},
    {"fc_in", Role::kUp, kAny, kSure},
    {"w3", Role::kUp, kElse, kSure},
    {"up", Role::kUp, kElse, kSure},
    {"wi", Role::kUp, kAny, kLikely},
    {"lin1", Role::kUp, kAny, kLikely},
    {"linear1", Role::kUp, kAny, kLikely},
    {"linear_1", Role::kUp, kAny, kLikely},
    {"linear_fc1", Role::kUp, kAny, kLikely},
    {"w_in", Role::kUp, kAny, kLikely},
    {"ffn_up", Role::kUp, kAny, kLikely},
    {"ffn_up_exps", Role::kUp, kAny, kLikely},
    {"intermediate", Role::kUp, kAny, kLikely},
    {"up_linear", Role::kUp, kElse, kLikely},
    {"v1", Role::kUp, kElse, kLikely},

    {"gate_up_proj", Role::kFusedGateUp, kAny, kSure},
    {"w13", Role::kFusedGateUp, kAny, kSure},
    {"gating_einsum", Role::kFusedGateUp, kAny, kLikely},
    {"gate_up", Role::kFusedGateUp, kAny, kLikely},
    {"up_gate_proj", Role::kFusedGateUp, kAny, kLikely},
    {"wi_fused", Role::kFusedGateUp, kAny, kLikely},

    {"down_proj", Role::kDown, kAny, kSure},
    {"dense_4h_to_h", Role::kDown, kAny, kSure},
    {"fc2", Role::kDown, kAny, kSure},
    {"fc_out", Role::kDown, kAny, kSure},
    {"w2", Role::kDown, kElse, kSure},
    {"c_proj", Role::kDown, kElse, kSure},
    {"wo", Role::kDown, kElse, kSure},
    {"down", Role::kDown, kElse, kSure},
    {"lin2", Role::kDown, kAny, kLikely},
    {"linear2", Role::kDown, kAny, kLikely},
    {"linear_2", Role::kDown, kAny, kLikely},
    {"linear_fc2", Role::kDown, kAny, kLikely},
    {"w_out", Role::kDown, kAny, kLikely},
    {"ffn_down", Role::kDown, kAny, kLikely},
    {"ffn_down_exps", Role::kDown, kAny, kLikely},
    {"output", Role::kDown, kElse, kLikely},
    {"down_linear", Role::kDown, kElse, kLikely},
};

struct PathWord {
  std::string_view word;
  Role role;
};
constexpr PathWord kBelow[] = {
    {"wpe", Role::kPosition},
    {"embed_positions", Role::kPosition},
    {"position_embeddings", Role::kPosition},
    {"pos_embed", Role::kPosition},
    {"position_embedding", Role::kPosition},
    {"positional_embedding", Role::kPosition},
    {"pos_emb", Role::kPosition},
    {"relative_attention_bias", Role::kPosition},
    {"position_ids", Role::kPosition},
    {"rel_pos_bias", Role::kPosition},
    {"pos_embedding", Role::kPosition},
    {"relative_position_bias_table", Role::kPosition},
    {"position_embd", Role::kPosition},
    {"relpos_bias", Role::kPosition},
    {"lora_A", Role::kAdapterDown},
    {"lora_a", Role::kAdapterDown},
    {"lora_down", Role::kAdapterDown},
    {"lora_embedding_A", Role::kAdapterDown},
    {"lora.down", Role::kAdapterDown},
    {"lora/down", Role::kAdapterDown},
    {"lora_B", Role::kAdapterUp},
    {"lora_b", Role::kAdapterUp},
    {"lora_up", Role::kAdapterUp},
    {"lora_embedding_B", Role::kAdapterUp},
    {"lora.up", Role::kAdapterUp},
    {"lora/up", Role::kAdapterUp},
    {"sinks", Role::kSink},
    {"sink", Role::kSink},
    {"attention_sinks", Role::kSink},
    {"attn_sink", Role::kSink},
    {"q_norm", Role::kQueryNorm},
    {"query_norm", Role::kQueryNorm},
    {"q_layernorm", Role::kQueryNorm},
    {"norm_q", Role::kQueryNorm},
    {"ln_q", Role::kQueryNorm},
    {"k_norm", Role::kKeyNorm},
    {"key_norm", Role::kKeyNorm},
    {"k_layernorm", Role::kKeyNorm},
    {"norm_k", Role::kKeyNorm},
    {"ln_k", Role::kKeyNorm},
    {"q_a_layernorm", Role::kLatentNorm},
    {"kv_a_layernorm", Role::kLatentNorm},
};

constexpr std::array<std::string_view, 3> kMixers = {"mamba", "mixer", "ssm"};
constexpr std::array<std::string_view, 7> kMixerWeights = {
    "in_proj", "x_proj",       "dt_proj",   "conv1d",
    "A_log",   "in_proj_qkvz", "in_proj_ba"};

// How the last part of a name ends, if this part joins the name of a module and
// a leaf. An example is `_bias` in `gate_up_proj_bias`.
struct Ending {
  std::string_view text;
  std::string_view leaf;
  bool blocks = false;
};
constexpr Ending kEndings[] = {{"_weight_scale_inv", "weight_scale_inv"},
                               {"_scale_inv", "weight_scale_inv"},
                               {"_weight_scale", "weight_scale"},
                               {"_weight_packed", "weight_packed"},
                               {"_weight_zero_point", "weight_zero_point"},
                               {"_qweight", "qweight"},
                               {"_qzeros", "qzeros"},
                               {"_weight", "weight"},
                               {"_kernel", "kernel"},
                               {"_bias", "bias"},
                               {"_scales", "scales"},
                               {"_scale", "scale"},
                               {"_zeros", "zeros"},
                               {"_blocks", "weight", true}};

template <class Table>
const auto* RowOf(const Table& table, std::string_view word) {
  const auto* const found =
      std::find_if(std::begin(table), std::end(table),
                   [&](const auto& row) { return row.word == word; });
  return found == std::end(table) ? nullptr : found;
}

bool Applies(Where where, WordPlace place) {
  switch (where) {
    case Where::kAnywhere:
      return true;
    case Where::kAttention:
      return place.in_attention;
    case Where::kOutside:
      return !place.in_attention;
    case Where::kBeforeLeaf:
      return place.before_leaf;
  }
  return false;
}

}  // namespace

bool HasPart(std::string_view name, char separator,
             std::span<const std::string_view> words) {
  const auto parts = SplitName(name, separator);
  return std::find_first_of(parts.begin(), parts.end(), words.begin(),
                            words.end()) != parts.end();
}

namespace {

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }

// The last parts of what quantised checkpoints store next to weights and
// scales: GPTQ, compressed-tensors and bitsandbytes.
constexpr std::string_view kStoredWords[] = {
    "g_idx",       "weight_g_idx",     "weight_shape",      "SCB",
    "absmax",      "quant_map",        "nested_absmax",     "weight_format",
    "quant_state", "nested_quant_map", "bitsandbytes__nf4", "input_scale",
    "k_scale",     "v_scale",          "bitsandbytes__fp4", "weight_scale_2"};

// Parts of words of published models for which there is neither a description
// of the family nor a rule pack: `adapter_list` of Zamba 2,
// `codebook_embeddings` of models of sound, and `W_pack` of Baichuan.
constexpr std::string_view kMoreParts[] = {"list", "codebook", "pack"};

bool IsRoleWord(std::string_view part) {
  const bool likely = std::any_of(
      std::begin(kWords), std::end(kWords), [&](const RoleWord& row) {
        return row.word == part && row.confidence == Confidence::kLikely;
      });
  return likely || LeafOfWord(part) != Leaf::kOther ||
         RoleBelow(part) != Role::kOther || NamesAttention(part) ||
         NamesNorm(part) || NamesMixer(part) || NamesMixerWeight(part) ||
         NamesSharedExpert(part) || NamesExperts(part, Confidence::kLikely) ||
         IsAmong(part, kTowerWords) ||
         std::find(std::begin(kStoredWords), std::end(kStoredWords), part) !=
             std::end(kStoredWords);
}

}  // namespace

bool IsPublishedWord(std::string_view part) {
  if (IsRoleWord(part)) return true;
  if (const auto joined = SplitLeaf(part)) {
    return IsPublishedWord(joined->module);
  }
  while (!part.empty() && !IsLetter(part.back())) part.remove_suffix(1);
  const PublishedWords known = WordsOfPublishedModels();
  // Many words are there in the singular and in the plural.
  const auto has = [](std::span<const std::string_view> words,
                      std::string_view word) {
    const std::string small = LowerCase(word);
    return std::binary_search(words.begin(), words.end(), small) ||
           std::binary_search(words.begin(), words.end(), small + "s") ||
           (small.ends_with('s') &&
            std::binary_search(words.begin(), words.end(),
                               small.substr(0, small.size() - 1)));
  };
  if (part.empty() || IsRoleWord(part) || has(known.words, part)) return true;
  // A part of the word begins after what is no letter, and at a capital that a
  // small letter precedes or, in a row of capitals, follows: `MLPBlock`.
  const auto begins = [&](size_t at) {
    return IsUpper(part[at]) &&
           (!IsUpper(part[at - 1]) ||
            (at + 1 < part.size() && IsLetter(part[at + 1]) &&
             !IsUpper(part[at + 1])));
  };
  for (size_t begin = 0; begin < part.size();) {
    size_t end = begin;
    while (end < part.size() && IsLetter(part[end]) &&
           (end == begin || !begins(end))) {
      ++end;
    }
    const std::string_view own = part.substr(begin, end - begin);
    if (own.size() > 1 && !has(known.parts, own) && !IsRoleWord(own) &&
        std::find(std::begin(kMoreParts), std::end(kMoreParts), own) ==
            std::end(kMoreParts)) {
      return false;
    }
    begin = end == begin ? end + 1 : end;
  }
  return part.size() > 1;
}

bool Contains(std::string_view part, std::string_view text) {
  return part.find(text) != std::string_view::npos;
}

Leaf LeafOfWord(std::string_view part) {
  const NamedLeaf* const row = RowOf(kLeaves, part);
  return row == nullptr ? Leaf::kOther : row->leaf;
}

Role RoleOfWord(std::string_view part, WordPlace place, Confidence confidence) {
  for (const RoleWord& row : kWords) {
    if (row.word == part && row.confidence == confidence &&
        Applies(row.where, place)) {
      return row.role;
    }
  }
  return Role::kOther;
}

Role RoleBelow(std::string_view part) {
  const PathWord* const row = RowOf(kBelow, part);
  return row == nullptr ? Role::kOther : row->role;
}

std::vector<std::string_view> RoleParts(std::string_view name, char separator) {
  constexpr std::string_view kLora = "lora";
  std::vector<std::string_view> out;
  const std::vector<std::string_view> parts = SplitName(name, separator);
  out.reserve(parts.size());
  for (const std::string_view part : parts) {
    const bool side = part == "down" || part == "up";
    if (!side || out.empty() || !out.back().ends_with(kLora)) {
      out.push_back(part);
      continue;
    }
    const std::string_view before = out.back();
    const size_t module = before.size() - kLora.size();
    if (module > 1 && before[module - 1] == '_') {
      out.back() = before.substr(0, module - 1);
      out.emplace_back();
    } else if (module > 0) {
      out.push_back(part);
      continue;
    }
    out.back() = {before.data() + module, kLora.size() + 1 + part.size()};
  }
  return out;
}

bool NamesAttention(std::string_view part) {
  return Contains(part, "attn") || Contains(part, "attention") ||
         Contains(part, "Attention");
}

bool NamesNorm(std::string_view part) {
  return Contains(part, "norm") || Contains(part, "Norm") ||
         part.starts_with("ln_") || part == "ln" || part == "ln1" ||
         part == "ln2";
}

bool NamesExperts(std::string_view part, Confidence least) {
  if (part == "experts" || part == "local_experts") return true;
  return least < Confidence::kSure &&
         (part.ends_with("_exps") ||
          (part.ends_with("_experts") && !NamesSharedExpert(part)));
}

bool NamesSharedExpert(std::string_view part) {
  return Contains(part, "shared_expert");
}

bool NamesMixer(std::string_view part) { return IsAmong(part, kMixers); }

bool NamesMixerWeight(std::string_view part) {
  return IsAmong(part, kMixerWeights);
}

std::optional<JoinedLeaf> SplitLeaf(std::string_view part) {
  for (const Ending& ending : kEndings) {
    if (!part.ends_with(ending.text) || part.size() == ending.text.size()) {
      continue;
    }
    return JoinedLeaf{part.substr(0, part.size() - ending.text.size()),
                      ending.leaf, ending.blocks};
  }
  return std::nullopt;
}

namespace {

// The names and families of matrices whose parts are interleaved. Fused
// matrices of all other names and families store one part after the other.

// Tensors of these names are interleaved by head: `linear_qkv` in
// Megatron-Core, and the others in Qwen3-Next. The names count only for models
// without a description.
constexpr std::array<std::string_view, 3> kByHead = {
    "linear_qkv", "in_proj_qkvz", "in_proj_ba"};
// It is interleaved by head in BLOOM, GPT-NeoX and Falcon, and not in ChatGLM.
// Without a family it may be either.
constexpr std::array<std::string_view, 1> kByFamily = {"query_key_value"};
constexpr std::string_view kContiguousFamily = "chatglm";
// Families without a description that interleave by head the parts of tensors
// whose names do not show it.
struct InterleavedName {
  std::string_view family;
  std::array<std::string_view, 1> part;
};
constexpr std::array<InterleavedName, 4> kInterleavedNames = {{
    {"internlm2", {"wqkv"}},
    {"minimax_m1", {"qkv_proj"}},
    {"minimax_text_01", {"qkv_proj"}},
    {"plamo2", {"in_proj"}},
}};

}  // namespace

bool InterleavesParts(std::string_view family, Role role, std::string_view name,
                      char separator) {
  if (role == Role::kFusedGateUp) return false;
  return std::any_of(kInterleavedNames.begin(), kInterleavedNames.end(),
                     [&](const InterleavedName& one) {
                       return one.family == family &&
                              HasPart(name, separator, one.part);
                     }) ||
         HasPart(name, separator, kByHead) ||
         (!family.empty() && family != kContiguousFamily &&
          HasPart(name, separator, kByFamily));
}

bool MayInterleaveParts(std::string_view name, char separator) {
  return HasPart(name, separator, kByFamily) ||
         std::any_of(kInterleavedNames.begin(), kInterleavedNames.end(),
                     [&](const InterleavedName& one) {
                       return HasPart(name, separator, one.part);
                     });
}

}  // namespace shardc
