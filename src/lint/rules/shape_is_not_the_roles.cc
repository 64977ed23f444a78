#include "lint/analysis/facts.h"
#include "lint/analysis/step_facts.h"
#include "lint/rules/lint.h"
#include "lint/rules/step_example.h"

namespace shardc {

extern const Lint kShapeIsNotTheRoles;

namespace {

void CheckShapeIsNotTheRoles(const Facts& facts, FindingSink& sink) {
  // If the configuration is that of another model, SHD223 reports that.
  if (!facts.misfits().empty()) return;
  ReportRoleFault(
      facts, step::RoleFault::kShape, kShapeIsNotTheRoles.code,
      "correct the role's dimensions under `params` of the `model:` "
      "section, or the configuration",
      sink);
}

}  // namespace

constinit const Lint kShapeIsNotTheRoles{
    .code = {235, "shape-is-not-the-roles", Level::kNote,
             "a parameter's shape is not that of its role"},
    .needs = kNeedsShapes | kNeedsModel,
    .what =
        "Finds parameters whose shape differs from the dimensions of their "
        "role in the `model:` section, with the sizes of the configuration. "
        "SHD223 reports a configuration of another model.",
    .why =
        "The meaning of a dimension decides what its sharding costs. A section "
        "with the dimensions in another order describes another model.",
    .instead = "Write the dimensions in the order in which they are stored.",
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
    .check = CheckShapeIsNotTheRoles};

}  // namespace shardc
