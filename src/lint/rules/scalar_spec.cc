#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {
namespace {

// Returns the rule's spec if it is a list. Returns null if it is, for example,
// the name of a bundle (a named set of specs). A list without axes, such as
// [null], is reported for a scalar. The bundle Replicated is not, because it
// fits any shape.
const SpecList* WrittenSpec(const Rule& rule) {
  return std::get_if<SpecList>(&rule.spec);
}

}  // namespace

void CheckScalarSpec(const Facts& facts, FindingSink& sink) {
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Rank(group) != 0 || group.rule < 0) continue;
    const auto index = static_cast<size_t>(group.rule);
    if (facts.rule_facts()[index].sketch.catch_all) continue;
    const auto spec = facts.RuleSpec(group.rule);
    if (!spec || spec->empty()) continue;
    const bool axes = !IsReplicated(*spec);
    if (!axes && WrittenSpec(facts.rules()[index]) == nullptr) continue;
    LintFinding finding = GroupFinding(
        facts, kScalarSpec.code, group,
        ParametersText(facts, group) +
            " is a scalar, and the first rule that matches it has the spec " +
            SpecText(*spec),
        "make the pattern narrower; a scalar is replicated whatever the rules "
        "are");
    if (!axes) finding.level = Level::kNote;
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
