// Proofs about the patterns of a list of rules on all names (defined in
// name_search.h). Each proof is bounded; beyond the bound the answer is "not
// proven". Every example name has been checked by RE2.
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
  int64_t work_per_question = 2'000'000;  // nodes that one question may visit
  int64_t work = 300'000'000;             // nodes that all questions may visit
};

// A rule of a cover, which is a set of earlier rules that together match every
// name of a rule. `name` is a name that this rule and the covered rule match.
// If that can be proven, no other rule of the cover matches it.
struct Cover {
  uint32_t rule = 0;
  std::string name;
};

struct RuleProof {
  enum class Kind : uint8_t {
    kWins,            // `name` is a shortest name that the rule wins
    kNeverWins,       // `covers` match all of its names
    kMatchesNothing,  // its pattern matches no name
    kNotProven,
  };
  Kind kind = Kind::kNotProven;
  std::string name;
  std::vector<Cover> covers;  // ascending by rule
};

// The relation of the names that two patterns match.
struct PairProof {
  enum class Kind : uint8_t {
    kApart,     // no name matches both
    kSame,      // both match the same names
    kContains,  // the first matches all names of the second, and more
    kWithin,    // the second matches all names of the first, and more
    kOverlap,   // some names match both, some only one
    kNotProven,
  };
  Kind kind = Kind::kNotProven;
  // Shortest names; empty if there is none or if this is not proven.
  std::string both;
  std::string only_first;
  std::string only_second;
};

class Prover {
 public:
  // `matcher` must outlive this object.
  explicit Prover(const Matcher& matcher, const ProofLimits& limits = {});

  // Searches for a shortest name that all rules of `all` (at most 16) and no
  // rule of `none` match.
  NameAnswer FindName(std::span<const uint32_t> all,
                      std::span<const uint32_t> none);
  RuleProof ProveRule(uint32_t rule);
  // Proves each rule. The first example names of all rules are matched at once,
  // so that the work does not grow with the square of the number of rules.
  std::vector<RuleProof> ProveRules();
  PairProof ProvePair(uint32_t first, uint32_t second);
  // Returns whether work is left for further questions.
  bool HasWork() const { return limits_.work > 0; }
  const Matcher& matcher() const { return matcher_; }

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

// The pairs of rules of a list that match common names, the earlier rule first,
// and the numbers of other pairs. After the prover's work is used up, a pair
// counts as not proven unless the literal ends of its patterns exclude each
// other.
struct RelatedRules {
  struct Pair {
    uint32_t first = 0;
    uint32_t second = 0;
    PairProof proof;
  };
  std::vector<Pair> pairs;  // sorted by second, then by first
  int64_t pairs_apart = 0;
  int64_t pairs_not_proven = 0;  // not in `pairs`
};
RelatedRules ProvePairs(Prover& prover);

// The answer to a question about patterns, with a counterexample. It is
// kNotProven if a pattern is invalid or not supported, or if the work does not
// suffice.
struct PatternProof {
  Answer answer = Answer::kNotProven;
  std::string name;  // if kNo
};

// Returns whether `outer` matches every name that `inner` matches.
PatternProof Contains(const Pattern& outer, const Pattern& inner);

// A rule of a list, and its effect: rules with equal `outcome` have the same
// effect.
struct RuledPattern {
  Pattern pattern;
  uint32_t outcome = 0;
};
// Returns whether every name has the same outcome under both lists. A name that
// no rule matches in either list has the same outcome. PatternProof::name is a
// counterexample.
PatternProof SameOutcomes(std::span<const RuledPattern> before,
                          std::span<const RuledPattern> after);

}  // namespace shardc

#endif  // SHARDC_MATCH_PROOF_PROVER_H_
