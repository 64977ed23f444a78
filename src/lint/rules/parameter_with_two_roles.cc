#include "lint/analysis/step_facts.h"
#include "lint/rules/lint.h"
#include "lint/rules/step_example.h"

namespace shardc {

extern const Lint kParameterWithTwoRoles;

namespace {

void CheckParameterWithTwoRoles(const Facts& facts, FindingSink& sink) {
  ReportRoleFault(facts, step::RoleFault::kTwo, kParameterWithTwoRoles.code,
                  "make the pattern of one of them narrower, with `^`, `$` or "
                  "more parts of the name",
                  sink);
}

}  // namespace

constinit const Lint kParameterWithTwoRoles{
    .code = {234, "parameter-with-two-roles", Level::kWarning,
             "a parameter matches two roles of the model's section"},
    .needs = kNeedsShapes | kNeedsModel,
    .what =
        "Finds parameters whose name matches the patterns of two roles of the "
        "`model:` section.",
    .why =
        "Rules have an order that decides between two matches; roles have "
        "none, so that the model's step is not known.",
    .instead = "Make the pattern that matches too much narrower.",
    .bad = {.mesh = "fsdp:2,tp:2",
            .rules = R"(version: 1
rules:
  - match: '(embed|head)$'
    spec: [VOCAB, FSDP]
)" SHARDC_EXAMPLE_TABLE_SECTION R"(    embed: ['embed', [v, d]]
    head: ['head$', [v, d]]
)" SHARDC_EXAMPLE_TABLE_STEP R"(    - logits = linear(x, head) @logits
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed": {"shape": [1024, 256], "dtype": "BF16"},
  "unembed.head": {"shape": [1024, 256], "dtype": "BF16"}}}
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
    .check = CheckParameterWithTwoRoles};

}  // namespace shardc
