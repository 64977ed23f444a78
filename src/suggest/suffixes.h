// Chooses the suffix of a parameter group's name that its pattern must match.
#ifndef SHARDC_SUGGEST_SUFFIXES_H_
#define SHARDC_SUGGEST_SUFFIXES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "suggest/name_index.h"

namespace shardc::suggest {

// How a pattern matches the names of a group: by the last parts of a name, and
// under the conditions that the flags add.
struct Suffix {
  size_t parts = 1;  // how many of the last parts must match
  // Whether the match must begin after a separator or at the start.
  bool at_boundary = false;
  // Whether the match must begin at the start of the name: `^`.
  bool at_start = false;
  // The index of the counter (a `*` of the group's name) whose numbers the
  // pattern lists; -1 if the pattern lists no numbers.
  int counter = -1;
  bool by_names = false;  // whether the pattern lists each complete name
};

// Returns a short suffix of the name of group `k` that is not the ending of a
// different name in another rule; the complete name if there is no such suffix.
// If another rule has a group with the same name, the pattern must also list
// numbers or complete names (Suffix::counter, Suffix::by_names).
Suffix FirstSuffix(const NameIndex& names, uint32_t k);

// Lengthens suffixes so that one pattern can match several groups of a rule.
// Suppose that the suffix of group a has fewer parts than the suffix of group
// b. If the names differ in exactly one of the parts of b's suffix, the suffix
// of a gets as many parts as that of b:
//
//   up_proj.weight, mlp.gate.weight  ->  mlp.up_proj.weight, mlp.gate.weight
void AlignSuffixes(const NameIndex& names, const std::vector<uint32_t>& group,
                   std::vector<Suffix>& suffixes);

// Makes a suffix match fewer names, by the first of these steps that is
// possible: add a part; match only from a separator or the start of the name;
// match only from its start; list complete names. Returns false if no step is
// possible.
bool Narrow(const NameIndex& names, uint32_t k, Suffix& suffix);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_SUFFIXES_H_
