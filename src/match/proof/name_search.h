// Directory: match/proof. Proves statements about all possible names, not only
// the names of one manifest, by searches in automata. The result is a proof, an
// example name or "not proven".
// Its files include headers of these directories: match/automaton, match.
//
// The names are those that a manifest may have: not empty, UTF-8, without
// control characters (U+0000 to U+001F, U+007F to U+009F). Names use the
// separator of the patterns. If some patterns are written with `/` and others
// with `.`, names with either separator are considered, and each pattern is
// matched as if the name used the separator of the pattern.
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
  // kYes if a name was found, kNo if no name meets the conditions.
  Answer answer = Answer::kNotProven;
  std::string name;    // If kYes: the name that was found, a shortest one.
  char separator = 0;  // The separator in `name`.
};

// Searches for a name, written with `separator`, that all patterns of `all` and
// no pattern of `none` match. Subtracts the cost of the search, about the
// number of visited nodes, from `work`. Returns kNotProven if the cost exceeds
// `work`, if the search needs too many texts, or if the automata do not support
// a pattern.
NameAnswer SearchName(std::span<const NfaPattern> all,
                      std::span<const NfaPattern> none, char separator,
                      int64_t& work);

}  // namespace shardc

#endif  // SHARDC_MATCH_PROOF_NAME_SEARCH_H_
