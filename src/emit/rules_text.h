// A rule set as people and programs read it: all files together.
#ifndef SHARDC_EMIT_RULES_TEXT_H_
#define SHARDC_EMIT_RULES_TEXT_H_

#include <string>

#include "model/rules.h"

namespace shardc {

// `[[FSDP, SP], TP]`, `ColumnWise`, `like: \1.weight`
std::string SpecSourceText(const SpecSource& source);
// The list as JSON: `[["FSDP", "SP"], "TP", null]`.
std::string SpecListJson(const SpecList& list);
std::string RulesText(const RuleSet& rules);
// {"rules": [{"match", "spec", "modes", "source", ...}], "policy": ...}
std::string RulesJson(const RuleSet& rules);

}  // namespace shardc

#endif  // SHARDC_EMIT_RULES_TEXT_H_
