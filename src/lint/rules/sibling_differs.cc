// Reports parameters that have the same name template and type as other
// parameters, but another spec in train. The spec of the largest group is
// assumed to be correct, and the groups with other specs are reported.
//
//   up/kernel: one rule for layers 0 and 1, another for layers 2 to 31
//     ->  layers 0 and 1 are reported
#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

void CheckSiblingDiffers(const Facts& facts, FindingSink& sink) {
  std::map<std::pair<std::string_view, uint32_t>, std::vector<size_t>> alike;
  for (size_t k = 0; k < facts.groups().size(); ++k) {
    const ParameterGroup& group = facts.groups()[k];
    if (!facts.Judged(group)) continue;
    alike[{group.name, facts.LayoutOf(group).type}].push_back(k);
  }
  FindingSink found;
  for (const auto& [key, members] : alike) {
    const size_t most = *std::max_element(
        members.begin(), members.end(), [&](size_t a, size_t b) {
          return facts.groups()[a].count() < facts.groups()[b].count();
        });
    const ParameterGroup& usual = facts.groups()[most];
    for (size_t index : members) {
      const ParameterGroup& group = facts.groups()[index];
      if (facts.Train(group).spec == facts.Train(usual).spec) continue;
      LintFinding finding = GroupFinding(
          facts, kSiblingDiffers.code, group,
          Quoted(facts.Example(group)) +
              (group.count() > 1 ? " and " + Counted(group.count() - 1, "other")
                                 : "") +
              " " + std::string(group.count() > 1 ? "are" : "is") + " " +
              SpecText(facts.Train(group).spec) + ", the other " +
              CountText(usual.count()) + " of " + Quoted(group.name) + " are " +
              SpecText(facts.Train(usual).spec),
          facts.IsEditable(group.rule)
              ? "write one rule for all of them, or `# shardc: "
                "ignore[SHD115]` and the reason above this rule"
              : "write one rule for all of them");
      // Without a subject, the findings of several groups are not joined.
      finding.subject.clear();
      finding.labels.push_back(
          {facts.GroupPlace(usual), "the rule of the others"});
      found.push_back(std::move(finding));
    }
  }
  for (LintFinding& finding : found) sink.push_back(std::move(finding));
}

}  // namespace shardc
