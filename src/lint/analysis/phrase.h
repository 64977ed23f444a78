// Formats phrases that the messages of several lints use, such as the name of a
// parameter group.
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
// Returns a percentage such as "95.0 %"; "0 %" if `whole` is 0.
std::string PercentText(int64_t part, int64_t whole);
// Returns the group's template and number of parameters, such as
// "`layers/*/q_proj/kernel` (32 parameters)". For a group of one parameter,
// returns the quoted name.
std::string ParametersText(const Facts& facts, const ParameterGroup& group);
// Returns the same for some of the group's parameters, with both numbers:
// "`layers/*/q_proj/kernel` (3 of 32 parameters)".
std::string SomeText(const Facts& facts, const ParameterGroup& group,
                     std::span<const uint32_t> params);
// Returns the group's template, or the name of its single parameter.
std::string GroupName(const Facts& facts, const ParameterGroup& group);
// Returns a text such as "axis `tp` has 4" or "axes `fsdp` x `sp` have 8". The
// number is the number of shards over these axes.
std::string AxesHave(const Facts& facts, const AxisGroup& group);
// Returns the subject of a message about all devices that may hold a parameter:
// "every device" or, if the plan has pipeline stages, "every device of a
// pipeline rank".
std::string EveryDevice(const Facts& facts);
// Returns the place of a rule, such as "rules.yaml:12". If the place is
// unknown, returns the rule's number, such as "rule 3".
std::string RuleText(const Facts& facts, int32_t rule);
// Returns a list such as "a, b and 4 more", which shows at most `limit` items.
std::string ListText(std::span<const std::string> items, size_t limit = 3);
// Returns a text such as "10 % 4 = 2", which explains why `parts` does not
// divide `size`.
std::string RemainderText(int64_t size, int64_t parts);
// Returns "is" for a count of 1, and "are" for other counts.
std::string_view IsAre(int64_t count);

// Returns the topics (facts that findings report) that follow if the rules were
// written for other names: dead rules, catch-alls, unmatched and replicated
// parameters, and unused axes. Separate findings about these facts are then
// redundant.
std::vector<Topic> NamingTopics(const Facts& facts);
// Returns whether a wrong separator explains why the rules do not match the
// names.
bool SeparatorExplainsNaming(const Facts& facts);

// Returns a finding with the code and its level, and without a message.
LintFinding FindingAt(const Code& code, Place place = {});
// Returns a finding about one parameter group, at the place of its rule.
LintFinding GroupFinding(const Facts& facts, const Code& code,
                         const ParameterGroup& group, std::string message,
                         std::string help);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_PHRASE_H_
