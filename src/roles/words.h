// The words that occur in parameter names, and their roles.
#ifndef SHARDC_ROLES_WORDS_H_
#define SHARDC_ROLES_WORDS_H_

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "roles/role.h"

namespace shardc {

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

}  // namespace shardc

#endif  // SHARDC_ROLES_WORDS_H_
