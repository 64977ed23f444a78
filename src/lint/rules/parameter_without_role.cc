#include "lint/analysis/step_facts.h"
#include "lint/rules/lint.h"
#include "lint/rules/step_example.h"

namespace shardc {

extern const Lint kParameterWithoutRole;

namespace {

void CheckParameterWithoutRole(const Facts& facts, FindingSink& sink) {
  ReportRoleFault(facts, step::RoleFault::kNone, kParameterWithoutRole.code,
                  "give it a role under `params` of the `model:` section, or "
                  "name it under `skip`",
                  sink);
}

}  // namespace

constinit const Lint kParameterWithoutRole{
    .code = {233, "parameter-without-role", Level::kNote,
             "a parameter has no role in the model's section"},
    .needs = kNeedsShapes | kNeedsModel,
    .what =
        "Finds parameters that have no role in the `model:` section of the "
        "rules. If most have none, the section is of another model and nothing "
        "is reported.",
    .why =
        "A parameter without a role is not part of the step: its traffic is "
        "not counted, and `verify` proves nothing about an incomplete model.",
    .instead = "Give it a role and an op, or skip it by name.",
    .bad = {.mesh = "fsdp:2,tp:2",
            .rules = R"(version: 1
rules:
  - match: 'embed$'
    spec: [VOCAB, FSDP]
  - match: 'scale$'
    spec: Replicated
)" SHARDC_EXAMPLE_TABLE_SECTION R"(    embed: ['embed$', [v, d]]
    norm: ['norm\.scale$', [d]]
)" SHARDC_EXAMPLE_TABLE_STEP R"(    - x = rmsnorm(x, norm) @normed
    - logits = linear(x, embed) @logits
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed": {"shape": [1024, 256], "dtype": "BF16"},
  "norm.scale": {"shape": [256], "dtype": "BF16"},
  "router.scale": {"shape": [256], "dtype": "BF16"}}}
)",
            .model = SHARDC_EXAMPLE_TABLE_CONFIG},
    .good = {.manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed": {"shape": [1024, 256], "dtype": "BF16"},
  "norm.scale": {"shape": [256], "dtype": "BF16"}}}
)"},
    .check = CheckParameterWithoutRole};

}  // namespace shardc
