#include "lint/analysis/facts.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/lint.h"
#include "lint/rules/step_example.h"

namespace shardc {

extern const Lint kShapeIsNotTheRoles;

namespace {

void Check(const Facts& facts, FindingSink& sink) {
  // Another model's configuration has a finding of its own.
  if (!facts.misfits().empty()) return;
  TellRoleFault(facts, step::RoleFault::kShape, kShapeIsNotTheRoles.code,
                "correct the role's dimensions under `params` of the `model:` "
                "section, or the configuration",
                sink);
}

}  // namespace

constinit const Lint kShapeIsNotTheRoles{
    .code = {235, "shape-is-not-the-roles", Level::kNote,
             "a parameter's shape is not what its role's dimensions are"},
    .needs = kNeedsShapes | kNeedsModel,
    .what =
        "Finds parameters whose shape is not that of the dimensions which "
        "their role in the `model:` section names, with the sizes of the "
        "configuration. A configuration of another model is SHD223.",
    .why =
        "Which dimension is which decides what a split of it costs. A "
        "section that has them in another order than the file describes "
        "another model.",
    .instead = "Write the dimensions as they are stored.",
    .bad = {.mesh = "fsdp:2,tp:2",
            .rules = R"(version: 1
rules:
  - match: '(embed|head)$'
    spec: [VOCAB, FSDP]
)" SHARDC_EXAMPLE_TABLE_SECTION R"(    embed: ['embed$', [v, d]]
    head: ['head$', [d, v]]
)" SHARDC_EXAMPLE_TABLE_STEP R"(    - logits = linear(x, head) @logits
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed": {"shape": [1024, 256], "dtype": "BF16"},
  "head": {"shape": [1024, 256], "dtype": "BF16"}}}
)",
            .model = SHARDC_EXAMPLE_TABLE_CONFIG},
    .good = {.rules = R"(version: 1
rules:
  - match: '(embed|head)$'
    spec: [VOCAB, FSDP]
)" SHARDC_EXAMPLE_TABLE_SECTION R"(    embed: ['embed$', [v, d]]
    head: ['head$', [v, d]]
)" SHARDC_EXAMPLE_TABLE_STEP R"(    - logits = linear(x, head) @logits
)"},
    .check = Check};

}  // namespace shardc
