#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kGateUpDiffer;

namespace {

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

}  // namespace

constinit const Lint kGateUpDiffer{
    .code = {213, "gate-up-differ", Level::kWarning,
             "the gate and up projections have different specs"},
    .needs = kNeedsShapes,
    .what =
        "Finds gate and up projections of one MLP with the same shape and "
        "different specs.",
    .why =
        "Their results are multiplied element by element, so that one of them "
        "is resharded in every layer.",
    .instead = "Give both the same spec.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'gate_proj/kernel'
    spec: ColumnWise
  - match: 'up_proj/kernel'
    spec: RowWise
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/mlp/gate_proj/kernel": {"shape": [1024, 4096], "dtype": "BF16"},
  "layers/0/mlp/up_proj/kernel": {"shape": [1024, 4096], "dtype": "BF16"}}}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: '(gate|up)_proj/kernel'
    spec: ColumnWise
)"},
    .check = CheckGateUpDiffer};

}  // namespace shardc
