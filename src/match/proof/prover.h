// Proves which names the patterns of a list of rules match, for all names
// (name_search.h defines them). The work of each proof is limited; beyond the
// limit the answer is "not proven". RE2 has checked every example name.
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

// One rule of a cover. A cover of a rule R is a set of earlier rules that
// together match every name that R matches, so that R never wins. This rule and
// R match `name`. If the search found such a name, no other rule of the cover
// matches `name`.
struct Cover {
  uint32_t rule = 0;
  std::string name;
};

struct RuleProof {
  enum class Kind : uint8_t {
    kWins,            // `name` is a shortest name that the rule wins
    kNeverWins,       // the rules in `covers` match all its names
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
  // Shortest names that both patterns, only the first or only the second match.
  // A name is empty if no such name exists or none was found within the limits.
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
  // Returns the proof of each rule. The example names of all rules are first
  // matched together, so that the work does not grow with the square of the
  // number of rules.
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

// The pairs of rules of a list that match common names, and the numbers of all
// other pairs. `first` is the earlier rule of a pair. When the prover has no
// work left, a pair is counted as not proven unless the literal ends of its
// patterns exclude a common name.
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

// The answer to a question about patterns, and a counterexample if the answer
// is kNo. The answer is kNotProven if a pattern is invalid or not supported, or
// if the search exceeds its limits.
struct PatternProof {
  Answer answer = Answer::kNotProven;
  std::string name;  // the counterexample, if the answer is kNo
};

// Returns whether `outer` matches every name that `inner` matches.
PatternProof Contains(const Pattern& outer, const Pattern& inner);

// A rule of a list. Rules with equal `outcome` have the same effect.
struct RuledPattern {
  Pattern pattern;
  uint32_t outcome = 0;
};
// Returns whether every name has the same outcome under both lists. If neither
// list has a rule that matches a name, its outcome is the same.
// PatternProof::name is a counterexample.
PatternProof SameOutcomes(std::span<const RuledPattern> before,
                          std::span<const RuledPattern> after);

}  // namespace shardc

#endif  // SHARDC_MATCH_PROOF_PROVER_H_
