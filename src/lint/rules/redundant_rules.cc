// Lints about rules and definitions that can be left out: an earlier rule
// applies to every parameter that the rule matches, or no spec uses the
// definition.
//
//   [0] `kernel`, [1] `o_proj/kernel`  ->  [1] wins no name
#include <set>
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/pattern_faults.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "match/proof/prover.h"
#include "model/model_description.h"
#include "model/name.h"
#include "resolve/resolve.h"
#include "source/wording.h"

namespace shardc {

// Reports rules that are shadowed: earlier rules match every parameter that the
// rule matches. The earlier rules are labels of the finding. Other lints report
// duplicates and rules below a catch-all. A rule that is overridden only by
// rules of other files is not reported. A proof decides whether the rule is
// shadowed only in this tree or for all names.
//
//   rules [0] `kernel`, [1] `o_proj/kernel`: [0] applies to every name that [1]
//   matches, in this tree and in all others
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

void CheckDuplicateRule(const Facts& facts, FindingSink& sink) {
  for (const Repeat& repeat : RepeatsOf(facts)) {
    if (!repeat.same_spec) continue;
    LintFinding finding =
        FindingAt(kDuplicateRule.code, facts.RulePlace(repeat.later));
    finding.message =
        "pattern " +
        Quoted(facts.rules()[static_cast<size_t>(repeat.later)].match) +
        " is that of an earlier rule with the same spec: this rule is never "
        "used";
    finding.labels.push_back(
        {facts.RulePlace(repeat.first), "the earlier rule"});
    finding.help = "remove this rule";
    sink.push_back(std::move(finding));
  }
}

void CheckConflictingRules(const Facts& facts, FindingSink& sink) {
  for (const Repeat& repeat : RepeatsOf(facts)) {
    if (repeat.same_spec) continue;
    LintFinding finding =
        FindingAt(kConflictingRules.code, facts.RulePlace(repeat.later));
    finding.message =
        "pattern " +
        Quoted(facts.rules()[static_cast<size_t>(repeat.later)].match) +
        " is that of an earlier rule with another spec: this rule is never "
        "used";
    finding.labels.push_back(
        {facts.RulePlace(repeat.first), "the earlier rule"});
    finding.help = "keep the rule with the correct spec, and remove the other";
    sink.push_back(std::move(finding));
  }
}

// Reports bundles and registrations that nothing uses. All names that specs,
// bundles, registrations, attention's tensors and the `model:` section use are
// collected. Surrounding underscores of a name are ignored. Definitions in
// packs (rules inside the program) are not reported. For example:
//
//   bundles: {QKV: ...}, and no `spec: QKV`  ->  bundle `QKV` is unused
namespace {

bool InPack(const Place& place) {
  return place.source != nullptr && IsPackName(place.source->name());
}

std::string Bare(std::string_view name) {
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) {
    name = name.substr(2, name.size() - 4);
  }
  return std::string(name);
}

class Uses {
 public:
  explicit Uses(const Facts& facts) {
    const RuleSet& set = facts.compiled().rules;
    for (const Rule& rule : set.rules) {
      Take(rule.spec);
      for (const auto& [mode, spec] : rule.modes) Take(spec);
    }
    for (const ActivationRule& rule : set.activations) {
      Take(rule.spec);
      for (const auto& [mode, spec] : rule.modes) Take(spec);
    }
    for (const Bundle& bundle : set.bundles) TakeList(bundle.axes);
    for (const Registration& one : set.registrations) {
      TakeRule(one.rule);
      if (one.generation) TakeRule(*one.generation);
    }
    const auto& resolver = facts.compiled().resolver;
    if (resolver) {
      for (const auto& tensor : AttentionSpecs(*resolver, Mode::kTrain, {})) {
        for (const std::string_view token : tensor.tokens) {
          names_.insert(Bare(token));
        }
      }
    }
    if (set.model == nullptr) return;
    for (const auto& [dim, axis] : set.model->axes) names_.insert(Bare(axis));
  }
  bool HasName(const std::string& name) const {
    return names_.count(Bare(name)) > 0;
  }
  bool HasBundle(const std::string& name) const {
    return bundles_.count(name) > 0;
  }

 private:
  void TakeList(const SpecList& list) {
    for (const SpecEntry& entry : list.entries) {
      for (const SpecName& name : entry.names) {
        if (!name.is_mesh_axis) names_.insert(Bare(name.text));
      }
    }
  }
  void TakeRule(const RegisteredRule& rule) {
    for (const auto& name : rule.names) {
      if (!name.forced_axis) names_.insert(Bare(name.text));
    }
  }
  void Take(const SpecSource& spec) {
    if (const auto* list = std::get_if<SpecList>(&spec)) TakeList(*list);
    if (const auto* bundle = std::get_if<SpecBundle>(&spec)) {
      bundles_.insert(bundle->name);
    }
  }
  std::set<std::string> names_;
  std::set<std::string> bundles_;
};

void Report(FindingSink& sink, const Place& place, const std::string& what,
            const std::string& name) {
  LintFinding finding = FindingAt(kUnusedDefinition.code, place);
  finding.message = what + " " + Quoted(name) + " is used by no spec";
  finding.help = "remove it";
  sink.push_back(std::move(finding));
}

}  // namespace

void CheckUnusedDefinition(const Facts& facts, FindingSink& sink) {
  const RuleSet& set = facts.compiled().rules;
  const Uses uses(facts);
  for (const Bundle& bundle : set.bundles) {
    if (!InPack(bundle.place) && !uses.HasBundle(bundle.name)) {
      Report(sink, bundle.place, "bundle", bundle.name);
    }
  }
  for (const Registration& one : set.registrations) {
    if (!InPack(one.place) && !uses.HasName(one.name)) {
      Report(sink, one.place,
             one.override_existing ? "override" : "registration", one.name);
    }
  }
}

}  // namespace shardc
