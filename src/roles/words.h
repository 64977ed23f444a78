// The words in parameter names, and the roles that they denote.
#ifndef SHARDC_ROLES_WORDS_H_
#define SHARDC_ROLES_WORDS_H_

#include <optional>
#include <string_view>

#include "roles/role.h"

namespace shardc {

// Returns the leaf that the last part of a name denotes, such as kBias for
// `bias`; kOther for an unknown word.
Leaf LeafOfWord(std::string_view part);

// The place of a word in a name.
struct WordPlace {
  bool in_attention = false;  // some part of the path names attention
  bool before_leaf = false;   // the word is the last part before the leaf
};

// Returns the role that a part of a path denotes, such as kQuery for `q_proj`;
// kOther if no word of this confidence denotes a role in that place.
Role RoleOfWord(std::string_view part, WordPlace place, Confidence confidence);

// Returns the role that a word gives to every parameter below it, whatever the
// parameter's module: positions, adapters, attention sinks, and norms of
// queries, keys and latents. Returns kOther for any other word.
Role RoleBelow(std::string_view part);

bool Contains(std::string_view part, std::string_view text);
bool NamesAttention(std::string_view part);
bool NamesNorm(std::string_view part);
bool NamesExperts(std::string_view part, Confidence least);
bool NamesSharedExpert(std::string_view part);
// Return whether the part names a state space mixer, or one of its packed
// parameters.
bool NamesMixer(std::string_view part);
bool NamesMixerWeight(std::string_view part);

// The two pieces of a last part that consists of a module's name and a leaf,
// such as `gate_up_proj_bias`.
struct JoinedLeaf {
  std::string_view module;  // `gate_up_proj`
  std::string_view leaf;    // `bias`
  bool blocks = false;      // packed blocks of a quantised weight
};
std::optional<JoinedLeaf> SplitLeaf(std::string_view part);

}  // namespace shardc

#endif  // SHARDC_ROLES_WORDS_H_
