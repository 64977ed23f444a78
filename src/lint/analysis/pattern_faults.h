// Corrects patterns: escapes dots that are meant as separators, writes the
// missing lower bound of a repetition such as `{,2}`, and ends a pattern with
// `$` or `\b`.
#ifndef SHARDC_LINT_ANALYSIS_PATTERN_FAULTS_H_
#define SHARDC_LINT_ANALYSIS_PATTERN_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// Escapes the dots that separate parts of a path: `mlp.up.weight` becomes
// `mlp\.up\.weight`. Returns nullopt if the pattern has no such dot.
std::optional<std::string> EscapeDots(std::string_view pattern);

// Writes the lower bound of repetitions such as `[0-9]{,2}`, which becomes
// `[0-9]{0,2}`. Both mean the same in Python's `re`, but RE2 matches `{,2}`
// literally. Returns nullopt if the pattern has no such repetition.
std::optional<std::string> WithLowerBounds(std::string_view pattern);

// Appends `$` or another assertion to a pattern. Alternatives are first put in
// a group, so `a|b` becomes `(?:a|b)$`. In `a|b$`, the `$` would belong only to
// the last alternative.
std::string WithEnd(const std::string& pattern, std::string_view end = "$");

// Some parameters of one group: their indices, in ascending order.
struct GroupPart {
  const ParameterGroup* group = nullptr;
  std::vector<uint32_t> params;
};

// Where the matches of a rule's pattern end in its parameters' names: at the
// end of a word, or inside one. A group may be in both lists: `layers.1` ends
// at a word in layers.1.q, and inside one in layers.10.q. `words` may have only
// the first parameter of a group.
struct PatternEnds {
  // Indices of the parameters in whose names the match ends at the end of a
  // word. For the pattern `q`, `attn/q/kernel` is such a name.
  std::vector<uint32_t> words;
  // The parameters in whose names the match ends inside a word. For the pattern
  // `q`, `attn/q_norm/scale` is such a name.
  std::vector<GroupPart> inside;
};

PatternEnds PatternEndsOf(const Facts& facts, size_t rule);

// Returns the rule's pattern with `$` or `\b` (the end of a word) appended, so
// that a match no longer ends inside a word. It is the first of these two
// patterns that still matches all names in PatternEnds::words, or nullopt if
// neither does.
std::optional<std::string> EndedPattern(const Facts& facts, size_t rule);

struct Repeat {
  int32_t first = 0;
  int32_t later = 0;
  bool same_spec = true;  // whether specs and placements are equal
};

// Compares the specs of rules. The specs of each rule are resolved once. The
// facts must outlive this object.
class SpecComparison {
 public:
  explicit SpecComparison(const Facts& facts) : facts_(&facts) {}

  // Returns whether two rules have the same placement, the same parts, and the
  // same spec in every mode. Two specs of the form `like: NAME` are equal if
  // they name the same parameter.
  bool Same(int32_t a, int32_t b);

 private:
  using Specs = std::vector<std::optional<Spec>>;
  const Specs& SpecsOf(int32_t rule);

  const Facts* facts_;
  // The specs of each rule: one for each planned mode, and one in train, which
  // may not be planned.
  std::map<int32_t, Specs> specs_;
};

// Returns each rule that has the same file, pattern and separator as an earlier
// rule, together with the first rule that has them.
std::vector<Repeat> RepeatsOf(const Facts& facts);

// Parameters with fewer elements are mostly norms, biases and routers, which
// users often replicate on purpose.
inline constexpr int64_t kLargeElements = 65536;

// A dead rule, and the parameters for which it was probably intended.
struct IntendedFallThrough {
  NearRule intended;
  const ParameterGroup* group = nullptr;
  // A second group, to which the rule is almost as near. The edit distance from
  // the rule to its name is at most 1 more than the distance to the name of
  // `group`.
  std::optional<NearRule> also;
  const ParameterGroup* also_group = nullptr;
};

// Returns the edit distance between the differing parts of a rule and a name: 1
// for `atn/c_proj` and attn/c_proj.
int64_t EditsOf(const NearRule& near);

struct FallThrough {
  int32_t rule = -1;                          // index of the catch-all
  std::vector<const ParameterGroup*> groups;  // the group with most bytes first
  int64_t bytes = 0;
  std::vector<IntendedFallThrough> intended;  // at most one for each dead rule
};

// Returns one record for each catch-all that replicates large parameters with
// at least 20 % of the model's bytes. Smaller parts of a model may be
// replicated on purpose. 5 % are enough if a dead rule (a rule that matches
// nothing) was probably intended for one of these parameters. Returns an empty
// list if all rules are catch-alls.
std::vector<FallThrough> CatchAllFallThroughs(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_PATTERN_FAULTS_H_
