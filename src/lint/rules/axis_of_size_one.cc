#include <algorithm>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {

// Reports rules that shard nothing: in all modes, every axis of their specs has
// size 1 on this mesh. Rules with the same axes are reported once, at the first
// of these rules.
void CheckAxisOfSizeOne(const Facts& facts, FindingSink& sink) {
  std::vector<AxisGroup> reported;
  for (size_t r = 0; r < facts.rule_facts().size(); ++r) {
    const RuleFacts& rule = facts.rule_facts()[r];
    AxisGroup axes;
    int64_t parts = 1;
    for (uint32_t index : rule.groups) {
      const ParameterGroup& group = facts.groups()[index];
      if (facts.Parts(group) > 1) parts = 2;
      for (const ModeLayout& mode : facts.LayoutOf(group).modes) {
        for (const AxisGroup& split : mode.spec) {
          for (const std::string& axis : split) {
            if (facts.mesh().SizeOf(axis) > 1) parts = 2;
            if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
              axes.push_back(axis);
            }
          }
        }
      }
      if (parts > 1) break;
    }
    if (axes.empty() || parts > 1) continue;
    if (std::find(reported.begin(), reported.end(), axes) != reported.end())
      continue;
    reported.push_back(axes);
    std::vector<std::string> names;
    for (const std::string& axis : axes) names.push_back(Quoted(axis));
    LintFinding finding = FindingAt(kAxisOfSizeOne.code,
                                    facts.RulePlace(static_cast<int32_t>(r)));
    finding.message = "the spec splits over " + ListText(names) + " only, " +
                      (axes.size() == 1 ? "which has" : "which have") +
                      " size 1 on this mesh: the parameters are replicated";
    finding.help = "make the axis larger than 1, or split over another axis";
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
