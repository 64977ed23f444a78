// Writes the rules of all files together, as text and JSON.
#ifndef SHARDC_EMIT_PLANS_RULES_TEXT_H_
#define SHARDC_EMIT_PLANS_RULES_TEXT_H_

#include <string>
#include <vector>

#include "model/rules.h"
#include "source/sink.h"

namespace shardc {

// Returns `[[FSDP, SP], TP]`, `ColumnWise` or `like: \1.weight`.
std::string SpecSourceText(const SpecSource& source);
std::string RulePlaceText(const Rule& rule);  // `rules.yaml:12`
// Parts of names in patterns are separated by `/` or `.`. Returns a line for
// each rules file that does not state which. The line has the separator that
// was inferred, and the reason.
std::vector<std::string> InferredSeparators(const RuleSet& rules);

std::string RulesText(const RuleSet& rules);
// Writes {"rules": [{"match", "spec", "modes", "source", ...}], "policy": ...}.
void WriteRulesJson(const RuleSet& rules, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_RULES_TEXT_H_
