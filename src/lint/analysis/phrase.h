// Phrases that lints share.
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
// "95.0 %"; "0 %" of nothing.
std::string PercentText(int64_t part, int64_t whole);
// "`layers/*/q_proj/kernel` (32 parameters)", or the name of a single one.
std::string ParametersText(const Facts& facts, const ParameterGroup& group);
// The group's name, or that of its single parameter.
std::string GroupName(const Facts& facts, const ParameterGroup& group);
// "`tp` has 4" or "`fsdp` x `sp` have 8".
std::string AxesHave(const Facts& facts, const AxisGroup& group);
// "rules.yaml:12", or "rule 3" where the place is not known.
std::string RuleText(const Facts& facts, int32_t rule);
// "a, b and 4 more", at most `limit` of them shown.
std::string ListText(std::span<const std::string> items, size_t limit = 3);
// "10 % 4 = 2", why `size` does not divide
std::string RemainderText(int64_t size, int64_t parts);
// "is" or "are"
std::string_view IsAre(int64_t count);

// What follows where no rule was written for these names: dead rules,
// parameters without one, and what the catch-all leaves whole.
std::vector<Topic> NamingTopics(const Facts& facts);
// Whether that is so because of a file's separator.
bool SeparatorExplainsNaming(const Facts& facts);

// A finding at the code's own level, its words still to come.
LintFinding FindingAt(const Code& code, Place place = {});
// A finding of this lint about one parameter group, at its rule.
LintFinding GroupFinding(const Facts& facts, const Code& code,
                         const ParameterGroup& group, std::string message,
                         std::string help);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_PHRASE_H_
