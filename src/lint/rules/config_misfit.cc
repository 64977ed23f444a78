#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kConfigMisfit;

namespace {

// Returns the place of the configuration's file, or of the manifest if the
// configuration has no file.
Place ConfigPlace(const Facts& facts) {
  const SourceRef& source = facts.model()->source;
  return source == nullptr
             ? facts.RulePlace(-1)
             : Place{source, Place::kEntireFile, Place::kEntireFile};
}

void CheckConfigMisfit(const Facts& facts, FindingSink& sink) {
  for (const Misfit& misfit : facts.misfits()) {
    LintFinding finding = FindingAt(kConfigMisfit.code, ConfigPlace(facts));
    finding.message = misfit.observation;
    if (misfit.heads) {
      finding.message += "; lints that count heads are skipped";
    }
    finding.help = "give the config.json that came with these parameters";
    if (misfit.group != nullptr) {
      facts.AddNames(facts.Members(*misfit.group), finding);
    }
    sink.push_back(std::move(finding));
  }
}

}  // namespace

constinit const Lint kConfigMisfit{
    .code = {223, "config-misfit", Level::kWarning,
             "the model's configuration does not fit the parameters"},
    .needs = kNeedsShapes | kNeedsModel,
    .what =
        "Finds configurations that contradict the shapes of the parameters: "
        "heads times head size is not the output size of the query projection "
        "(or KV heads that of the key projection), the hidden size is no "
        "dimension of any matrix, the embedding has fewer rows than the "
        "vocabulary, or the number of experts differs; and configurations "
        "without sizes of attention for a model that has attention.",
    .why =
        "Lints take the number of heads from the configuration. With another "
        "model's configuration a split inside a head is not detected, and a "
        "correct split is reported.",
    .instead = "Give the config.json that came with the parameters.",
    .bad = {.mesh = "tp:8",
            .rules = R"(version: 1
rules:
  - match: 'q_proj/kernel'
    spec: [null, TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "layers/0/self_attn/q_proj/kernel": {"shape": [4096, 4096], "dtype": "BF16"}}}
)",
            .model = R"({"num_attention_heads": 40, "head_dim": 128,
 "hidden_size": 4096}
)"},
    .good = {.model = R"({"num_attention_heads": 32, "head_dim": 128,
 "hidden_size": 4096}
)"},
    .check = CheckConfigMisfit};

}  // namespace shardc
