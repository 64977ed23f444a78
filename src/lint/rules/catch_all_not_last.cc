#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

void CheckCatchAllNotLast(const Facts& facts, FindingSink& sink) {
  const auto& rules = facts.rule_facts();
  for (size_t r = 0; r < rules.size(); ++r) {
    if (!rules[r].sketch.catch_all || rules[r].builtin) continue;
    const Source* file = facts.rules()[r].place.source.get();
    Finding finding;
    int64_t below = 0;
    bool same_file = false;
    for (size_t later = r + 1; later < rules.size(); ++later) {
      if (rules[later].sketch.catch_all) continue;
      ++below;
      if (facts.rules()[later].place.source.get() == file) same_file = true;
      if (finding.labels.size() < 3) {
        finding.labels.push_back(
            {facts.RulePlace(static_cast<int32_t>(later)), "never reached"});
      }
    }
    if (below == 0) continue;
    finding.code = &kCatchAllNotLast.code;
    // If all rules below are in other files, the finding is only a warning. One
    // file may extend the other only to use its definitions.
    finding.level = same_file ? kCatchAllNotLast.code.level : Level::kWarning;
    finding.place = facts.RulePlace(static_cast<int32_t>(r));
    finding.message = "the catch-all " + Quoted(facts.rules()[r].match) +
                      " is above " + Counted(below, "rule") +
                      (same_file ? "" : " of other files") +
                      ", which it makes dead";
    finding.help = same_file ? "move it to the end"
                             : "remove it if one of these files has one";
    sink.push_back(std::move(finding));
    return;
  }
}

}  // namespace shardc
