#include "comm/reshard.h"
#include "lint/analysis/facts.h"
#include "lint/analysis/groups.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/vocabulary.h"
#include "lint/rules/all.h"

namespace shardc {

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

}  // namespace shardc
