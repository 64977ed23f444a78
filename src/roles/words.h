// The words of parameter names and the roles that they stand for. All rooms
// that read a role from a name read this table.
#ifndef SHARDC_ROLES_WORDS_H_
#define SHARDC_ROLES_WORDS_H_

#include <optional>
#include <string_view>

#include "roles/role.h"

namespace shardc {

// The leaf that the last part of a name is; kOther for any other word.
Leaf LeafOfWord(std::string_view part);

// The place of a word in a name.
struct WordPlace {
  bool in_attention = false;  // some part of the path names attention
  bool before_leaf = false;   // the part is the last before the leaf
};

// The role that a part of a path stands for; kOther if no row of this
// confidence has the word for that place.
Role RoleOfWord(std::string_view part, WordPlace place, Confidence confidence);

// The role that a word gives to every parameter below it, whatever module it
// belongs to: positions, adapters, norms of queries and keys, attention sinks.
// kOther for any other word.
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

// A last part that joins a module's name and a leaf, such as
// `gate_up_proj_bias`.
struct JoinedLeaf {
  std::string_view module;  // `gate_up_proj`
  std::string_view leaf;    // `bias`
  bool blocks = false;      // packed blocks of a quantised weight
};
std::optional<JoinedLeaf> SplitLeaf(std::string_view part);

}  // namespace shardc

#endif  // SHARDC_ROLES_WORDS_H_
