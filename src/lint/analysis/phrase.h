// Phrases that several lints share.
#ifndef SHARDC_LINT_ANALYSIS_PHRASE_H_
#define SHARDC_LINT_ANALYSIS_PHRASE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lint/analysis/facts.h"
#include "lint/analysis/topic.h"
#include "source/finding.h"

namespace shardc {

std::string Quoted(std::string_view text);  // in backticks
// "95.0 %"; "0 %" if the total is 0.
std::string PercentText(int64_t part, int64_t whole);
// "`layers/*/q_proj/kernel` (32 parameters)", or the name of a single one.
std::string ParametersText(const Facts& facts, const ParameterGroup& group);
// The group's name, or that of its single parameter.
std::string GroupName(const Facts& facts, const ParameterGroup& group);
// "`tp` has 4" or "`fsdp` x `sp` have 8".
std::string AxesHave(const Facts& facts, const AxisGroup& group);
// "rules.yaml:12", or "rule 3" if the place is unknown.
std::string RuleText(const Facts& facts, int32_t rule);
// "a, b and 4 more", at most `limit` of them shown.
std::string ListText(std::span<const std::string> items, size_t limit = 3);
// Returns "10 % 4 = 2", which explains why `parts` does not divide `size`.
std::string RemainderText(int64_t size, int64_t parts);
// "is" or "are"
std::string_view IsAre(int64_t count);

// Returns the topics that are explained if the rules were written for other
// names: dead rules, catch-alls, unmatched and replicated parameters, and
// unused axes.
std::vector<Topic> NamingTopics(const Facts& facts);
// Whether a wrong separator is why the rules do not match these names.
bool SeparatorExplainsNaming(const Facts& facts);

// A finding with the code's level and without a message.
LintFinding FindingAt(const Code& code, Place place = {});
// A finding about one parameter group, at its rule.
LintFinding GroupFinding(const Facts& facts, const Code& code,
                         const ParameterGroup& group, std::string message,
                         std::string help);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_PHRASE_H_
