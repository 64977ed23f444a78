#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/vocabulary.h"
#include "lint/rules/lint.h"
#include "source/wording.h"

namespace shardc {

extern const Lint kVocabularyPadding;

namespace {

void CheckVocabularyPadding(const Facts& facts, FindingSink& sink) {
  const Vocabulary vocabulary = VocabularyOf(facts);
  if (vocabulary.embedding == nullptr || vocabulary.head == nullptr) return;
  const int64_t rows =
      (*facts.TypeOf(*vocabulary.embedding)
            .shape)[static_cast<size_t>(vocabulary.embedding_dim)];
  const int64_t out = (*facts.TypeOf(*vocabulary.head)
                            .shape)[static_cast<size_t>(vocabulary.head_dim)];
  if (rows == out) return;
  LintFinding finding = GroupFinding(
      facts, kVocabularyPadding.code, *vocabulary.head,
      ParametersText(facts, *vocabulary.head) + " has " + CountText(out) +
          " outputs and " + ParametersText(facts, *vocabulary.embedding) +
          " has " + CountText(rows) + " rows",
      "pad both to the same size");
  finding.labels.push_back(
      {facts.GroupPlace(*vocabulary.embedding), "the embedding's rule"});
  sink.push_back(std::move(finding));
}

}  // namespace

constinit const Lint kVocabularyPadding{
    .code =
        {217, "vocabulary-padding", Level::kWarning,
         "the embedding and the output head have different vocabulary sizes"},
    .needs = kNeedsShapes,
    .what =
        "Finds an output head whose vocabulary size differs from the "
        "embedding's.",
    .why =
        "A token that only one of them has is read out of bounds, and the "
        "shards of the two hold different tokens.",
    .instead = "Pad both to one size.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'embedding'
    spec: [null, FSDP]
  - match: 'lm_head/kernel'
    spec: [FSDP, TP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed_tokens/embedding": {"shape": [50257, 1024], "dtype": "BF16"},
  "lm_head/kernel": {"shape": [1024, 50304], "dtype": "BF16"}}}
)"},
    .good = {.manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed_tokens/embedding": {"shape": [50304, 1024], "dtype": "BF16"},
  "lm_head/kernel": {"shape": [1024, 50304], "dtype": "BF16"}}}
)"},
    .check = CheckVocabularyPadding};

}  // namespace shardc
