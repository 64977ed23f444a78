// Proofs about the patterns of a rule list on all names (name_search.h says
// which). Each is bounded; what the bounds do not allow is not proven, never
// wrong: a name that is given has been looked at by RE2.
#ifndef SHARDC_MATCH_PROOF_PROVER_H_
#define SHARDC_MATCH_PROOF_PROVER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "match/match.h"
#include "match/proof/name_search.h"

namespace shardc {

struct ProofLimits {
  int64_t work_per_question = 2'000'000;  // nodes looked at
  int64_t work = 300'000'000;             // of all questions
};

// Earlier rules that together take every name of a rule, with a name that
// this one takes and none of the others.
struct Cover {
  uint32_t rule = 0;
  std::string name;
};

struct RuleProof {
  enum class Kind : uint8_t {
    kWins,            // `name` is a shortest name that it wins
    kNeverWins,       // `covers` take all names
    kMatchesNothing,  // its pattern is found in no name
    kNotProven,
  };
  Kind kind = Kind::kNotProven;
  std::string name;
  std::vector<Cover> covers;  // by rule
};

// Of two patterns: the names in which they are found.
struct PairProof {
  enum class Kind : uint8_t {
    kApart,     // no name has both
    kSame,      // the same names
    kContains,  // the first's hold all of the second's, and more
    kWithin,    // the other way round
    kOverlap,   // some have both, some only one
    kNotProven,
  };
  Kind kind = Kind::kNotProven;
  // Shortest names; empty where there is none.
  std::string both;
  std::string only_first;
  std::string only_second;
};

class Prover {
 public:
  // `matcher` outlives it.
  explicit Prover(const Matcher& matcher, const ProofLimits& limits = {});

  // A shortest name in which all of `all` (at most 16) and none of `none` are
  // found.
  NameAnswer FindName(std::span<const uint32_t> all,
                      std::span<const uint32_t> none);
  RuleProof ProveRule(uint32_t rule);
  PairProof ProvePair(uint32_t first, uint32_t second);

 private:
  bool Holds(const NameAnswer& found, std::span<const uint32_t> all,
             std::span<const uint32_t> none) const;
  std::vector<char> SeparatorsOf(std::span<const uint32_t> all,
                                 std::span<const uint32_t> none) const;
  std::optional<uint32_t> WinnerBefore(uint32_t rule,
                                       const NameAnswer& name) const;
  void Minimise(uint32_t rule, std::vector<Cover>& covers);

  const Matcher& matcher_;
  ProofLimits limits_;
};

// The pairs of a list, each with the earlier rule first, but for those that
// are apart, while the prover's work lasts.
struct RelatedRules {
  struct Pair {
    uint32_t first = 0;
    uint32_t second = 0;
    PairProof proof;
  };
  std::vector<Pair> pairs;  // by second, then by first
  int64_t pairs_apart = 0;
  int64_t pairs_not_proven = 0;  // not in `pairs` either
};
RelatedRules ProvePairs(Prover& prover, uint32_t rules);

// For fixes of one pattern. The name is a shortest one that speaks against
// it; not proven where a pattern cannot be used.
struct PatternProof {
  Answer answer = Answer::kNotProven;
  std::string name;  // kNo
};

// Found in the same names.
PatternProof Equivalent(const Pattern& a, const Pattern& b);
// `outer` is found wherever `inner` is.
PatternProof Contains(const Pattern& outer, const Pattern& inner);

// A rule of a list, and what it does: equal numbers do the same.
struct RuledPattern {
  Pattern pattern;
  uint32_t outcome = 0;
};
// Every name gets the same outcome of both lists, or none of both. The name
// is one that does not.
PatternProof SameOutcomes(std::span<const RuledPattern> before,
                          std::span<const RuledPattern> after);

}  // namespace shardc

#endif  // SHARDC_MATCH_PROOF_PROVER_H_
