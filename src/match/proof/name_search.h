// Room: match/proof. What holds on all names, not only on those of one
// manifest: by search over automata, so an answer is a proof or a name.
//
// The names are those that a manifest may hold: not empty, UTF-8, without
// control characters (U+0000 to U+001F, U+007F to U+009F). They are separated
// as the patterns are; where some patterns are written for `/` and others for
// `.`, by either, and each pattern reads its own separator, as in matching.
//
// Here: the one search that all proofs are made of.
#ifndef SHARDC_MATCH_PROOF_NAME_SEARCH_H_
#define SHARDC_MATCH_PROOF_NAME_SEARCH_H_

#include <cstdint>
#include <span>
#include <string>

#include "match/automaton/nfa.h"

namespace shardc {

enum class Answer : uint8_t { kNo, kYes, kNotProven };

struct NameAnswer {
  Answer answer = Answer::kNotProven;  // is there such a name?
  std::string name;                    // kYes: a shortest one
  char separator = 0;                  // between its parts
};

// A name separated by `separator` in which every one of the patterns `all` is
// found and none of `none`. Takes what it looks at from `work`, nodes of
// automata, and is not proven where that does not suffice or a pattern is
// outside of the automata's subset.
NameAnswer SearchName(std::span<const NfaPattern> all,
                      std::span<const NfaPattern> none, char separator,
                      int64_t& work);

}  // namespace shardc

#endif  // SHARDC_MATCH_PROOF_NAME_SEARCH_H_
