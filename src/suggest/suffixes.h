// Chooses the suffix of a group's name that its pattern must match.
#ifndef SHARDC_SUGGEST_SUFFIXES_H_
#define SHARDC_SUGGEST_SUFFIXES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "suggest/name_index.h"

namespace shardc::suggest {

// How a pattern matches the names of a group: by the last parts of a name,
// restricted further by the flags.
struct Suffix {
  size_t parts = 1;          // number of the last parts that must match
  bool at_boundary = false;  // also match only after a separator
  bool at_start = false;     // also match only at the start of a name: `^`
  // The index of the counter (a `*` of the group's name) whose numbers the
  // pattern lists; -1 if it lists none.
  int counter = -1;
  bool by_names = false;  // the pattern lists each complete name
};

// Returns a short suffix of a group's name with which no other name of another
// rule group ends, or the complete name. Groups of the same name in other rule
// groups are separated by numbers or, if that is not possible, by complete
// names.
Suffix FirstSuffix(const NameIndex& names, uint32_t k);

// Lengthens suffixes so that one pattern can match several groups of a rule
// group. If group a has a suffix of fewer parts than group b, and the names of
// a and b differ in exactly one of the parts of b's suffix, a's suffix gets as
// many parts as b's:
//
//   up_proj.weight, mlp.gate.weight  ->  mlp.up_proj.weight, mlp.gate.weight
void AlignSuffixes(const NameIndex& names, const std::vector<uint32_t>& group,
                   std::vector<Suffix>& suffixes);

// Makes a suffix one step narrower. Returns false if it already lists names.
bool Narrow(const NameIndex& names, uint32_t k, Suffix& suffix);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_SUFFIXES_H_
