// Formats phrases that the messages of several lints use. A group of one
// parameter is named by this parameter. Other groups are named by their
// template and the number of parameters. Percentages are computed in integers,
// with one decimal. For example:
//
//   PercentText(1, 3)  ->  33.3 %     `layers.*.up` (32 parameters)
#include "lint/analysis/phrase.h"

#include <algorithm>

#include "source/wording.h"

namespace shardc {

std::string Quoted(std::string_view text) {
  return "`" + std::string(text) + "`";
}

std::string PercentText(int64_t part, int64_t whole) {
  if (whole <= 0) return "0 %";
  // The product with 1000 must fit in 64 bits. Larger sizes are divided by
  // 1024; this rounding does not change the first decimal.
  while (whole > INT64_MAX / 2000) {
    part /= 1024;
    whole /= 1024;
  }
  const int64_t mille = (part * 1000 + whole / 2) / whole;
  return std::to_string(mille / 10) + "." + std::to_string(mille % 10) + " %";
}

std::string RemainderText(int64_t size, int64_t parts) {
  return std::to_string(size) + " % " + std::to_string(parts) + " = " +
         std::to_string(size % parts);
}

std::string ParametersText(const Facts& facts, const ParameterGroup& group) {
  if (group.count() == 1) return Quoted(facts.Example(group));
  return Quoted(group.name) + " (" + Counted(group.count(), "parameter") + ")";
}

std::string SomeText(const Facts& facts, const ParameterGroup& group,
                     std::span<const uint32_t> params) {
  if (std::ssize(params) == group.count()) return ParametersText(facts, group);
  if (params.size() == 1) return Quoted(facts.plan().names[params.front()]);
  return Quoted(group.name) + " (" + CountText(std::ssize(params)) + " of " +
         Counted(group.count(), "parameter") + ")";
}

std::string GroupName(const Facts& facts, const ParameterGroup& group) {
  return group.count() == 1 ? facts.Example(group) : group.name;
}

std::string AxesHave(const Facts& facts, const AxisGroup& group) {
  std::string out;
  for (const std::string& axis : group) {
    AppendItem(out, " x ", Quoted(axis));
  }
  const int64_t parts = facts.mesh().Parts(group).value_or(0);
  return (group.size() == 1 ? "axis " : "axes ") + out +
         (group.size() == 1 ? " has " : " have ") + std::to_string(parts);
}

std::string EveryDevice(const Facts& facts) {
  return facts.plan().stages ? "every device of a pipeline rank"
                             : "every device";
}

std::string RuleText(const Facts& facts, int32_t rule) {
  const Place place = facts.RulePlace(rule);
  if (!place.HasPosition()) return "rule " + std::to_string(rule);
  return place.source->name() + ":" +
         std::to_string(place.source->At(place.begin).line);
}

std::string ListText(std::span<const std::string> items, size_t limit) {
  std::string out;
  const size_t shown = std::min(items.size(), limit);
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) out += i + 1 == items.size() ? " and " : ", ";
    out += items[i];
  }
  if (items.size() > shown) {
    out += " and " + std::to_string(items.size() - shown) + " more";
  }
  return out;
}

std::string_view IsAre(int64_t count) { return count == 1 ? "is" : "are"; }

LintFinding FindingAt(const Code& code, Place place) {
  LintFinding out;
  out.code = &code;
  out.level = code.level;
  out.place = std::move(place);
  return out;
}

LintFinding GroupFinding(const Facts& facts, const Code& code,
                         const ParameterGroup& group, std::string message,
                         std::string help) {
  LintFinding out = FindingAt(code, facts.GroupPlace(group));
  out.message = std::move(message);
  out.help = std::move(help);
  facts.AddNames(facts.Members(group), out);
  out.subject = ParametersText(facts, group);
  return out;
}

std::vector<Topic> NamingTopics(const Facts& facts) {
  std::vector<Topic> out = {WholeModelTopic()};
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    if (rule.sketch.catch_all) {
      out.push_back(CatchAllTopic(r));
    } else if (rule.found == 0) {
      out.push_back(DeadRuleTopic(r));
    }
  }
  for (const ParameterGroup& group : facts.groups()) {
    const std::string& name = facts.Example(group);
    if (facts.LayoutOf(group).unmatched) out.push_back(UnmatchedTopic(name));
    if (facts.Replicated(group)) out.push_back(ReplicatedTopic(name));
  }
  // If the rules were written for other names, they match nothing and so use no
  // axis. Findings about unused axes then have the same cause.
  for (const MeshAxis& axis : facts.mesh().axes) {
    out.push_back(UnusedAxisTopic(axis.name));
  }
  return out;
}

bool SeparatorExplainsNaming(const Facts& facts) {
  return facts.OtherNaming() &&
         std::any_of(facts.rule_facts().begin(), facts.rule_facts().end(),
                     [](const RuleFacts& rule) {
                       return rule.cause == DeadCause::kSeparator;
                     });
}

}  // namespace shardc
