#include "lint/analysis/facts.h"
#include "lint/analysis/phrase.h"
#include "lint/analysis/vocabulary.h"
#include "lint/rules/all.h"
#include "source/wording.h"

namespace shardc {

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

}  // namespace shardc
