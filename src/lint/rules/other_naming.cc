// Reports that the rules were written for a model with other names, in one
// finding for the complete rule set. lint/analysis/facts.cc detects such rules.
// This file counts them for the message.
//
//   rules for JAX names, parameters with PyTorch names  ->  2 of 2 rules match
//   nothing, and 0 of 2 parameters match a rule
#include <string>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

void CheckOtherNaming(const Facts& facts, FindingSink& sink) {
  if (!facts.OtherNaming()) return;
  int64_t specific = 0;
  int64_t dead = 0;
  int32_t first = -1;
  LintFinding finding = FindingAt(kOtherNaming.code);
  finding.reports = NamingTopics(facts);
  // If a wrong separator explains why the rules match nothing, this finding is
  // redundant.
  if (SeparatorExplainsNaming(facts)) finding.unless = {NamingTopic()};
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    if (rule.sketch.catch_all) continue;
    ++specific;
    if (rule.found > 0) continue;
    ++dead;
    if (first < 0) first = static_cast<int32_t>(r);
  }
  const auto params = static_cast<int64_t>(facts.plan().params.size());
  int64_t whole = 0;
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Replicated(group)) whole += facts.TotalBytes(group);
  }
  finding.place = facts.RulePlace(first);
  finding.message = std::to_string(dead) + " of " + Counted(specific, "rule") +
                    " match nothing here and " + CountText(facts.applied()) +
                    " of " + Counted(params, "parameter") + " (" +
                    PercentText(facts.applied(), params) + ") match" +
                    (facts.applied() == 1 ? "es" : "") +
                    " a rule other than a catch-all" +
                    (whole > 0 ? ": " + BytesText(whole) +
                                     " are replicated on " + EveryDevice(facts)
                               : "");
  finding.help =
      "use rules for these names; the rules seem to be written for another "
      "framework's: a parameter here is " +
      Quoted(facts.plan().names.front()) + ", the first rule has " +
      Quoted(facts.rules()[static_cast<size_t>(first)].match);
  sink.push_back(std::move(finding));
}

}  // namespace shardc
