#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/all.h"

namespace shardc {

void CheckGateUpDiffer(const Facts& facts, FindingSink& sink) {
  for (const Siblings& module : SiblingsOf(facts)) {
    const ParameterGroup* gate = module.Find(Role::kGate);
    const ParameterGroup* up = module.Find(Role::kUp);
    if (gate == nullptr || up == nullptr) continue;
    if (facts.TypeOf(*gate).shape != facts.TypeOf(*up).shape) continue;
    const int rank = facts.Rank(*gate);
    bool same = true;
    for (int dim = 0; dim < rank; ++dim) {
      if (!SameSplit(facts.mesh(), facts.AxesAt(*gate, dim),
                     facts.AxesAt(*up, dim))) {
        same = false;
      }
    }
    if (same) continue;
    LintFinding finding =
        GroupFinding(facts, kGateUpDiffer.code, *gate,
                     ParametersText(facts, *gate) + " is " +
                         SpecText(facts.Train(*gate).spec) + " and " +
                         Quoted(GroupName(facts, *up)) + " is " +
                         SpecText(facts.Train(*up).spec) +
                         "; their results are multiplied element by element, "
                         "so that one is resharded",
                     "give both the same spec");
    finding.labels.push_back({facts.GroupPlace(*up), "the up projection"});
    sink.push_back(std::move(finding));
  }
}

}  // namespace shardc
