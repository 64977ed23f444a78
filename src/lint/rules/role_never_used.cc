// Reports roles of the `model:` section that are not used. A role that is not
// optional needs a parameter, and an op that reads the parameter. A role that
// belongs to layers needs a parameter in each layer.
#include <string>
#include <vector>

#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/all.h"

namespace shardc {

void CheckRoleNeverUsed(const Facts& facts, FindingSink& sink) {
  const StepFacts* const step = facts.Step();
  if (step == nullptr) return;
  LintFinding finding = FindingAt(kRoleNeverUsed.code);
  // If a pack (rules inside the program) describes the role, the finding is a
  // note, because users may have changed the model.
  if (step->builtin()) finding.level = Level::kNote;
  std::vector<std::string> texts;
  for (const step::RoleProblem& problem : step->roles().problems) {
    if (problem.fault != step::RoleFault::kMissing &&
        problem.fault != step::RoleFault::kUnused) {
      continue;
    }
    const DescribedRole& role =
        step->description().roles[static_cast<size_t>(problem.role)];
    // An optional role may be unused. For an optional role, kMissing means that
    // only some experts have its parameter, which is reported.
    if (role.optional && problem.fault == step::RoleFault::kUnused) continue;
    texts.push_back(problem.message);
    if (texts.size() == 1) {
      finding.place = role.place;
    } else {
      finding.labels.push_back({role.place, "and here"});
    }
  }
  if (texts.empty()) return;
  finding.message =
      "the `model:` section does not fit this tree: " + ListText(texts);
  finding.help =
      "correct the role's pattern, write `?` after the name of a role that a "
      "model may lack, or remove the role";
  sink.push_back(std::move(finding));
}

}  // namespace shardc
