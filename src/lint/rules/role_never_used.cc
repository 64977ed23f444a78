// Reports roles of the `model:` section that are not used. A role that is not
// optional needs a parameter, and an op that reads the parameter. A role that
// belongs to layers needs a parameter in each layer.
#include <string>
#include <vector>

#include "lint/analysis/phrase.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/lint.h"
#include "lint/rules/step_example.h"

namespace shardc {

extern const Lint kRoleNeverUsed;

namespace {

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

}  // namespace

constinit const Lint kRoleNeverUsed{
    .code = {236, "role-never-used", Level::kWarning,
             "a role of the model's section has no parameter or no op"},
    .needs = kNeedsShapes | kNeedsModel,
    .what =
        "Finds roles of the `model:` section without a `?` that no parameter "
        "has, in some layer or at all, and roles that no op reads. It is a "
        "note if the section is a built-in pack's.",
    .why =
        "A line of the step without its weight is left out, and a weight that "
        "no line reads is never used: the section describes another model, or "
        "only part of this one.",
    .instead = "Let the pattern match, or mark the role as optional.",
    .bad = {.mesh = "fsdp:2,tp:2",
            .rules = R"(version: 1
rules:
  - match: 'embed$'
    spec: [VOCAB, FSDP]
)" SHARDC_EXAMPLE_TABLE_SECTION R"(    embed: ['embed$', [v, d]]
    head: ['lm_head$', [v, d]]
)" SHARDC_EXAMPLE_TABLE_STEP R"(    - logits = linear(x, head) @logits
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed": {"shape": [1024, 256], "dtype": "BF16"}}}
)",
            .model = SHARDC_EXAMPLE_TABLE_CONFIG},
    .good = {.rules = R"(version: 1
rules:
  - match: 'embed$'
    spec: [VOCAB, FSDP]
)" SHARDC_EXAMPLE_TABLE_SECTION R"(    embed: ['embed$', [v, d]]
    head?: ['lm_head$', [v, d], {tied: embed}]
)" SHARDC_EXAMPLE_TABLE_STEP R"(    - logits = linear(x, head) @logits
)"},
    .check = CheckRoleNeverUsed};

}  // namespace shardc
