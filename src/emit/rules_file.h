// A rules file written from the model: what `rules --resolved` and importers
// give, and what `--rules` reads back.
#ifndef SHARDC_EMIT_RULES_FILE_H_
#define SHARDC_EMIT_RULES_FILE_H_

#include <string>

#include "model/axis_rules.h"
#include "model/rules.h"

namespace shardc {

// All files together as one rules file in JSON, which YAML's reader takes:
// every axis rule with the value in force, registrations, bundles, rules and
// policy. Rules of both separators cannot stand in one file: see
// HasMixedSeparators.
std::string RulesFileJson(const RuleSet& rules);
bool HasMixedSeparators(const RuleSet& rules);

// Axis rules as a rules file, only those given.
std::string AxesFileYaml(const AxisRules& axes);
std::string AxesFileJson(const AxisRules& axes);

}  // namespace shardc

#endif  // SHARDC_EMIT_RULES_FILE_H_
