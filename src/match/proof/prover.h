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
#ifndef SHARDC_MATCH_PROOF_PROVER_H_
#define SHARDC_MATCH_PROOF_PROVER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "match/automaton/nfa.h"
#include "match/match.h"

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

// Proves which names the patterns of a list of rules match. The proofs concern
// all possible names. The work of each proof is limited; beyond the limit the
// result is "not proven". RE2 has checked every example name.

struct ProofLimits {
  // The number of automaton nodes that one search for a name may visit.
  int64_t work_per_question = 2'000'000;
  // The number of automaton nodes that all searches together may visit.
  int64_t work = 300'000'000;
};

// One rule of a cover. A cover of a rule R is a set of earlier rules that
// together match every name that R matches, so that R is never the first match
// of a name. Both `rule` and R match `name`. If possible, `name` is a name that
// no other rule of the cover matches.
struct Cover {
  uint32_t rule = 0;
  std::string name;
};

struct RuleProof {
  enum class Kind : uint8_t {
    // The rule is the first match of some name. `name` is a shortest one.
    kWins,
    kNeverWins,       // The rules in `covers` match all names of this rule.
    kMatchesNothing,  // The pattern matches no name.
    kNotProven,
  };
  Kind kind = Kind::kNotProven;
  std::string name;
  std::vector<Cover> covers;  // The rules of the cover, ascending by rule.
};

// The relation of the names that two patterns match.
struct PairProof {
  enum class Kind : uint8_t {
    kApart,     // No name matches both.
    kSame,      // Both match the same names.
    kContains,  // The first matches all names of the second, and other names.
    kWithin,    // The second matches all names of the first, and other names.
    kOverlap,   // Some names match both, and each matches other names.
    kNotProven,
  };
  Kind kind = Kind::kNotProven;
  // The shortest names that match both patterns, only the first, and only the
  // second. A text is empty if no such name exists or none was found within the
  // limits.
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
  // Returns the proof of each rule. First, a search finds a shortest name for
  // each rule, and one pass matches all these names with all rules. A rule that
  // is the first match of its own shortest name needs no further search. The
  // work therefore does not increase with the square of the number of rules.
  std::vector<RuleProof> ProveRules();
  PairProof ProvePair(uint32_t first, uint32_t second);
  // Returns whether further searches are allowed: the searches so far have
  // visited fewer nodes than ProofLimits::work.
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

// The pairs of rules of a list that both match some name, and the counts of the
// other pairs. `first` is the earlier rule of a pair. When the limit on the
// prover's work is reached, the remaining pairs are counted as not proven,
// unless the literal ends of their patterns show that no name matches both.
struct RelatedRules {
  struct Pair {
    uint32_t first = 0;
    uint32_t second = 0;
    PairProof proof;
  };
  std::vector<Pair> pairs;  // Sorted by `second`, then by `first`.
  int64_t pairs_apart = 0;
  // The number of pairs without a proof, which are not in `pairs`.
  int64_t pairs_not_proven = 0;
};
RelatedRules ProvePairs(Prover& prover);

// The result of a question about patterns, and a counterexample if the answer
// is kNo. The answer is kNotProven if a pattern is invalid or not supported, or
// if the search exceeds its limits.
struct PatternProof {
  Answer answer = Answer::kNotProven;
  std::string name;  // The counterexample if the answer is kNo.
};

// Returns kYes if `outer` matches every name that `inner` matches.
PatternProof Contains(const Pattern& outer, const Pattern& inner);

// A rule of a list. Rules with equal `outcome` have the same effect on a name.
struct RuledPattern {
  Pattern pattern;
  uint32_t outcome = 0;
};
// Returns kYes if every name has the same outcome under both lists. The outcome
// of a name is that of the first rule that matches it. A name that no rule
// matches in either list has the same outcome. If the answer is kNo,
// PatternProof::name is a name whose outcomes differ.
PatternProof SameOutcomes(std::span<const RuledPattern> before,
                          std::span<const RuledPattern> after);

}  // namespace shardc

#endif  // SHARDC_MATCH_PROOF_PROVER_H_
