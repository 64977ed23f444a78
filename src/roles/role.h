// Directory: roles. Finds what each parameter of a model does (query
// projection, output head, scale of a norm), and which of its dimensions are
// the input and the output. Linting, suggested rules, cost, pictures and
// exports use these roles.
// Its files include headers of these directories: source, model, program.
//
// This header declares the roles, and the properties that depend only on a
// role.
#ifndef SHARDC_ROLES_ROLE_H_
#define SHARDC_ROLES_ROLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace shardc {

enum class Role : uint8_t {
  kOther,      // unknown
  kEmbedding,  // token embedding, [vocabulary, width]
  kHead,       // output head, from hidden states to logits
  kPosition,
  kQuery,
  kKey,
  kValue,
  kFusedKeyValue,
  kFusedQkv,
  kOutput,      // output projection of attention
  kLatentDown,  // latent attention (MLA): hidden states to the latent
  kLatentUp,    // latent attention (MLA): latent to the heads
  kRouter,
  kGate,
  kUp,
  kFusedGateUp,
  kDown,
  // A matrix that has the model's width on one side, and whose name does not
  // show what it does.
  kProjection,
  kConvolution,
  // A parameter of a state-space mixer (Mamba) or of linear attention, such as
  // `in_proj`, `conv1d` or `A_log`.
  kStateSpace,
  kAdapterDown,  // `lora_A`
  kAdapterUp,    // `lora_B`
  kNorm,
  kQueryNorm,
  kKeyNorm,
  kLatentNorm,
  kSink,    // attention sinks: one logit for each head
  kBias,    // a bias; ParameterRole::module_role is its module's role
  kScale,   // the scale or zero point of a quantised weight
  kVector,  // has rank 0 or 1 and an unknown role
};

// The names of roles in files and in output, in the order of the roles.
inline constexpr std::array<std::string_view, 30> kRoleNames = {
    "other",        "embedding",   "head",        "position",
    "query",        "key",         "value",       "fused_key_value",
    "fused_qkv",    "output",      "latent_down", "latent_up",
    "router",       "gate",        "up",          "fused_gate_up",
    "down",         "projection",  "convolution", "state_space",
    "adapter_down", "adapter_up",  "norm",        "query_norm",
    "key_norm",     "latent_norm", "sink",        "bias",
    "scale",        "vector"};
constexpr std::string_view RoleName(Role role) {
  return kRoleNames[static_cast<size_t>(role)];
}

// Returns whether the role is a projection to or from attention heads.
bool IsAttention(Role role);
// Returns whether the role is an attention projection whose outputs are only
// keys and values, so that its heads are KV heads.
bool IsKeyOrValue(Role role);
// Returns whether the role is a projection of a feed-forward block, such as a
// gate.
bool IsMlp(Role role);
bool IsAdapter(Role role);
// Returns whether the role is the scale of a norm, inside attention or
// elsewhere.
bool IsNorm(Role role);
// Returns whether the role is a vector of attention with one number for each
// head (sinks), or with numbers for the columns of heads (norms of queries or
// keys).
bool IsHeadVector(Role role);

// TakesWidth() returns whether a projection of this role is known to read
// activations of the model's width, and GivesWidth() whether it writes them.
// Both return false for latent and fused key-value projections.
bool TakesWidth(Role role);
bool GivesWidth(Role role);

// How certain it is that a parameter has a role.
enum class Confidence : uint8_t {
  kNone,
  kSizes,  // sizes agree with the role, but the name does not show it
  // The name has a word that a few frameworks use, some with other meanings.
  kLikely,
  kSure,  // the name has a word with one meaning in every framework
};

// The last part of a parameter's path.
enum class Leaf : uint8_t {
  kWeight,
  kKernel,
  kBias,
  kScale,
  kZeroPoint,
  kEmbeddingTable,
  kOther
};

// Returns the leaf that the last part of a name denotes, such as kBias for
// `bias`; kOther if the word is unknown.
Leaf LeafOfWord(std::string_view part);

// The place of a word in a name.
struct WordPlace {
  bool in_attention = false;  // whether a part of the path names attention
  // Whether the word is the last part before the leaf.
  bool before_leaf = false;
};

// Returns the role that one part of a path denotes, such as kQuery for
// `q_proj`. Returns kOther if no word with this confidence denotes a role in
// this place.
Role RoleOfWord(std::string_view part, WordPlace place, Confidence confidence);

// Returns the role that a word sets for every parameter below it, whatever the
// parameter's module is. Such words name positions, adapters, attention sinks,
// and norms of queries, keys and latents. Returns kOther for any other word.
Role RoleBelow(std::string_view part);
// Returns the parts of a name. The two parts of an adapter are one part, after
// that of the module which is adapted: `to_q_lora.down.weight` has the parts
// `to_q`, `lora.down` and `weight`.
std::vector<std::string_view> RoleParts(std::string_view name, char separator);

// The parts of names that are vision and audio towers. The vision tower is
// called `img` in big_vision's PaliGemma, and `vision_backbone` in Molmo.
inline constexpr std::array<std::string_view, 9> kTowerWords = {
    "visual",      "vision_tower",          "vision_model",
    "img",         "vision_encoder",        "vision_backbone",
    "audio_tower", "multi_modal_projector", "mm_projector"};

// The words of the names of published models, in lower case, without the
// numbers at their end, and sorted. `parts` are those that `_` and capitals
// join.
struct PublishedWords {
  std::span<const std::string_view> words, parts;
};
// Returns the words of the described families and of the bundled rule packs.
PublishedWords WordsOfPublishedModels();
// Returns whether a part of a name is a word of a published model, a word of
// this file, or made of such words: `CausalSelfAttention_0`, `attention_block`.
// A part without letters is one, too.
bool IsPublishedWord(std::string_view part);

// Returns whether a part of the name is one of the words.
bool HasPart(std::string_view name, char separator,
             std::span<const std::string_view> words);

bool Contains(std::string_view part, std::string_view text);
bool NamesAttention(std::string_view part);
bool NamesNorm(std::string_view part);
bool NamesExperts(std::string_view part, Confidence least);
bool NamesSharedExpert(std::string_view part);
// NamesMixer returns whether the part names a state-space mixer, such as
// `mamba`. NamesMixerWeight returns whether it names a parameter of such a
// mixer, such as `in_proj`.
bool NamesMixer(std::string_view part);
bool NamesMixerWeight(std::string_view part);

// The module and the leaf in the last part of a name, if `_` joins them, as in
// `gate_up_proj_bias`.
struct JoinedLeaf {
  std::string_view module;  // `gate_up_proj`
  std::string_view leaf;    // `bias`
  // Whether the weight is stored as packed, quantised blocks.
  bool blocks = false;
};
std::optional<JoinedLeaf> SplitLeaf(std::string_view part);

// How a matrix with several parts stores them: one after the other, such as all
// queries before all keys, or interleaved, such as the query, key and value of
// each head. One range of an interleaved matrix has its share of each part.

// Returns whether the model family interleaves the parts of the matrix of this
// name and role. `family` is the `model_type` of its configuration; empty if it
// is unknown.
bool InterleavesParts(std::string_view family, Role role, std::string_view name,
                      char separator);
// Returns whether some family interleaves the parts of a matrix whose name does
// not show it.
bool MayInterleaveParts(std::string_view name, char separator);

}  // namespace shardc

#endif  // SHARDC_ROLES_ROLE_H_
