// Finds the embedding and the output head of a model.
#ifndef SHARDC_LINT_ANALYSIS_VOCABULARY_H_
#define SHARDC_LINT_ANALYSIS_VOCABULARY_H_

#include "lint/analysis/facts.h"

namespace shardc {

struct Vocabulary {
  const ParameterGroup* embedding = nullptr;
  const ParameterGroup* head = nullptr;
  int embedding_dim = 0;  // index of the dimension of the vocabulary
  int head_dim = 0;
};

// Finds the embedding and the output head among the parameters of rank 2 that
// lints can judge (Facts::Judged). A member is null if no group or several
// groups have the role.
inline Vocabulary VocabularyOf(const Facts& facts) {
  Vocabulary out;
  int embeddings = 0;
  int heads = 0;
  for (const ParameterGroup& group : facts.groups()) {
    if (facts.Rank(group) != 2 || !facts.Judged(group)) continue;
    if (group.role.module_role == Role::kEmbedding) {
      out.embedding = &group;
      out.embedding_dim = group.role.in_first.value_or(true) ? 0 : 1;
      embeddings += static_cast<int>(group.count());
    } else if (group.role.module_role == Role::kHead) {
      const int dim = OutDim(group.role, 2);
      if (dim < 0) continue;
      out.head = &group;
      out.head_dim = dim;
      heads += static_cast<int>(group.count());
    }
  }
  if (embeddings != 1) out.embedding = nullptr;
  if (heads != 1) out.head = nullptr;
  return out;
}

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_VOCABULARY_H_
