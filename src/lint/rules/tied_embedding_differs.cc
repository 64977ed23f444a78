#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/vocabulary.h"
#include "lint/rules/lint.h"

namespace shardc {

extern const Lint kTiedEmbeddingDiffers;

namespace {

void CheckTiedEmbeddingDiffers(const Facts& facts, FindingSink& sink) {
  if (!facts.model()->tied_embeddings) return;
  const Vocabulary vocabulary = VocabularyOf(facts);
  const ParameterGroup* embedding = vocabulary.embedding;
  const ParameterGroup* head = vocabulary.head;
  if (embedding == nullptr || head == nullptr) return;
  const AxisGroup rows = facts.AxesAt(*embedding, vocabulary.embedding_dim);
  const AxisGroup width =
      facts.AxesAt(*embedding, 1 - vocabulary.embedding_dim);
  const AxisGroup head_rows = facts.AxesAt(*head, vocabulary.head_dim);
  const AxisGroup head_width = facts.AxesAt(*head, 1 - vocabulary.head_dim);
  if (SameSplit(facts.mesh(), rows, head_rows) &&
      SameSplit(facts.mesh(), width, head_width)) {
    return;
  }
  LintFinding finding = GroupFinding(
      facts, kTiedEmbeddingDiffers.code, *head,
      ParametersText(facts, *head) + " is tied to " +
          ParametersText(facts, *embedding) +
          ", but its vocabulary is split over " + GroupText(head_rows) +
          " and its width over " + GroupText(head_width) +
          ", the embedding's over " + GroupText(rows) + " and " +
          GroupText(width),
      "give both the same axes for the vocabulary and for the width");
  finding.labels.push_back({facts.GroupPlace(*embedding), "the embedding"});
  sink.push_back(std::move(finding));
}

}  // namespace

constinit const Lint kTiedEmbeddingDiffers{
    .code = {211, "tied-embedding-differs", Level::kWarning,
             "the embedding and the tied output head have different specs"},
    .needs = kNeedsShapes | kNeedsModel,
    .what =
        "Finds an output head whose spec differs from the embedding's, "
        "dimension by dimension, if the model's configuration ties the two.",
    .why =
        "They are one tensor. Two specs mean two copies, or a reshard of the "
        "entire table in every step.",
    .instead = "Use the same axes for vocabulary and width in both.",
    .bad = {.mesh = "fsdp:2,tp:4",
            .rules = R"(version: 1
rules:
  - match: 'embedding'
    spec: [VOCAB, FSDP]
  - match: 'lm_head/kernel'
    spec: [TP, FSDP]
)",
            .manifest = R"({"schema": "shardc.manifest/v1", "params": {
  "embed_tokens/embedding": {"shape": [32000, 4096], "dtype": "BF16"},
  "lm_head/kernel": {"shape": [4096, 32000], "dtype": "BF16"}}}
)",
            .model = R"({"tie_word_embeddings": true, "hidden_size": 4096}
)"},
    .good = {.rules = R"(version: 1
rules:
  - match: 'embedding'
    spec: [VOCAB, FSDP]
  - match: 'lm_head/kernel'
    spec: [FSDP, VOCAB]
)"},
    .check = CheckTiedEmbeddingDiffers};

}  // namespace shardc
