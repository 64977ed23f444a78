// Room: match/proof. Statements about all possible names, not only those of one
// manifest. Automata are searched, so each answer other than "not proven" is a
// proof or an example name.
// Includes: match/automaton, match.
//
// The names are those that a manifest may have: not empty, UTF-8, without
// control characters (U+0000 to U+001F, U+007F to U+009F). Their separator is
// that of the patterns; if some patterns are written with `/` and others with
// `.`, it is either, and each pattern reads its own separator, as in matching.
//
// This file: the search that all proofs use.
#ifndef SHARDC_MATCH_PROOF_NAME_SEARCH_H_
#define SHARDC_MATCH_PROOF_NAME_SEARCH_H_

#include <cstdint>
#include <span>
#include <string>

#include "match/automaton/nfa.h"

namespace shardc {

enum class Answer : uint8_t { kNo, kYes, kNotProven };

struct NameAnswer {
  Answer answer = Answer::kNotProven;  // whether there is such a name
  std::string name;                    // if kYes: a shortest one
  char separator = 0;                  // the separator of `name`
};

// Searches for a name with that `separator` that all patterns of `all` and no
// pattern of `none` match. Subtracts the cost of the search, about the number
// of visited nodes, from `work`. The answer is kNotProven if `work` does not
// suffice, if the search needs too many texts, or if the automata do not
// support a pattern.
NameAnswer SearchName(std::span<const NfaPattern> all,
                      std::span<const NfaPattern> none, char separator,
                      int64_t& work);

}  // namespace shardc

#endif  // SHARDC_MATCH_PROOF_NAME_SEARCH_H_
