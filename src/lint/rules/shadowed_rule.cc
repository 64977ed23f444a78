// Reports rules that are shadowed: earlier rules match every parameter that the
// rule matches. The earlier rules are labels of the finding. Other lints report
// duplicates and rules below a catch-all. A rule that is overridden only by
// rules of other files is not reported. A proof decides whether the rule is
// shadowed only in this tree or for all names.
//
//   rules [0] `kernel`, [1] `o_proj/kernel`: [0] applies to every name that [1]
//   matches, in this tree and in all others
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/repeats.h"
#include "lint/rules/all.h"
#include "match/proof/prover.h"
#include "source/wording.h"

namespace shardc {
namespace {

// Returns whether all rules that apply instead of this rule are in other files.
// Other files may override the rule on purpose, because a file can extend
// another file.
bool Overrides(const Facts& facts, const RuleFacts& rule, size_t index) {
  const Place& own = facts.rules()[index].place;
  for (const LostTo& lost : rule.lost) {
    if (facts.rules()[lost.rule].place.source == own.source) return false;
  }
  return true;
}

bool IsShadowed(const Facts& facts, size_t index) {
  const RuleFacts& rule = facts.rule_facts()[index];
  if (rule.found == 0 || rule.won > 0 || rule.builtin) return false;
  // A catch-all is intended for parameters that no other rule matches, so it
  // may be the first match of none.
  if (rule.sketch.catch_all) return false;
  if (Overrides(facts, rule, index)) return false;
  for (const LostTo& lost : rule.lost) {
    // Other lints report duplicates and rules below a catch-all.
    if (facts.rule_facts()[lost.rule].sketch.catch_all) return false;
    if (facts.rules()[lost.rule].match == facts.rules()[index].match) {
      return false;
    }
  }
  return true;
}

// Returns a text that is appended to the message, from a proof about all
// possible names. It states that the rule applies to no name in any tree, or
// else a name to which it would apply in another tree. It is empty if the proof
// finds neither.
std::string OfAllNamesText(const Facts& facts, size_t rule) {
  Prover prover(*facts.compiled().matcher, {.work = 4'000'000});
  const RuleProof proof = prover.ProveRule(static_cast<uint32_t>(rule));
  if (proof.kind == RuleProof::Kind::kNeverWins) {
    return "; it would not apply to any name of another tree either";
  }
  if (proof.kind == RuleProof::Kind::kWins) {
    return "; in another tree it would apply to names such as " +
           ShortQuote(proof.name);
  }
  return "";
}

}  // namespace

void CheckShadowedRule(const Facts& facts, FindingSink& sink) {
  SpecComparison specs(facts);
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    if (!IsShadowed(facts, r)) continue;
    const RuleFacts& rule = facts.rule_facts()[r];
    bool same = true;
    Finding finding;
    for (const LostTo& lost : rule.lost) {
      const auto winner = static_cast<int32_t>(lost.rule);
      same = same && specs.Same(winner, static_cast<int32_t>(r));
      finding.labels.push_back({facts.RulePlace(winner),
                                "takes " + Counted(lost.count, "parameter") +
                                    ", such as " +
                                    Quoted(facts.plan().names[lost.example])});
    }
    finding.code = &kShadowedRule.code;
    finding.level = same ? Level::kNote : kShadowedRule.code.level;
    finding.place = facts.RulePlace(static_cast<int32_t>(r));
    finding.message =
        "rule " + Quoted(facts.rules()[r].match) + " never applies: " +
        (rule.found == 1
             ? "the parameter it matches goes"
             : "all " + CountText(rule.found) + " parameters it matches go") +
        " to earlier rules" + (same ? " with the same spec" : "");
    finding.help =
        (same ? "remove it"
              : "move it above the other rule, or make the other narrower") +
        OfAllNamesText(facts, r);
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
