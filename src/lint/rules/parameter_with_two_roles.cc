#include "lint/analysis/step_facts.h"
#include "lint/rules/lint.h"

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
model:
  dims: {d: hidden_size, v: vocab_size}
  repeat: num_hidden_layers
  params:
    embed: ['embed', [v, d]]
    head: ['head$', [v, d]]
  begin:
    - x = lookup(embed, ids) @resid
  layer: []
  end:
    - logits = linear(x, head) @logits
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed": {"shape": [1024, 256], "dtype": "BF16"},
  "unembed.head": {"shape": [1024, 256], "dtype": "BF16"}}}
)",
            .model = R"({"hidden_size": 256, "vocab_size": 1024,
 "num_hidden_layers": 1}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: '(embed|head)$'
    spec: [VOCAB, FSDP]
model:
  dims: {d: hidden_size, v: vocab_size}
  repeat: num_hidden_layers
  params:
    embed: ['embed$', [v, d]]
    head: ['head$', [v, d]]
  begin:
    - x = lookup(embed, ids) @resid
  layer: []
  end:
    - logits = linear(x, head) @logits
)"},
    .check = Check};

}  // namespace shardc
