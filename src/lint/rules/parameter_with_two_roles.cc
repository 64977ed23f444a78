#include "lint/analysis/step_facts.h"
#include "lint/rules/lint.h"
#include "lint/rules/step_example.h"

namespace shardc {

extern const Lint kParameterWithTwoRoles;

namespace {

void Check(const Facts& facts, FindingSink& sink) {
  TellRoleFault(facts, step::RoleFault::kTwo, kParameterWithTwoRoles.code,
                "anchor the pattern of one of them", sink);
}

}  // namespace

constinit const Lint kParameterWithTwoRoles{
    .code = {234, "parameter-with-two-roles", Level::kWarning,
             "two roles of the model's section take one parameter"},
    .needs = kNeedsShapes | kNeedsModel,
    .what =
        "Finds parameters in whose names the patterns of two roles of the "
        "`model:` section are found.",
    .why =
        "The order of rules decides between patterns of rules; roles have no "
        "order, so the model is not described.",
    .instead = "Anchor the pattern that says too little.",
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
    .check = Check};

}  // namespace shardc
