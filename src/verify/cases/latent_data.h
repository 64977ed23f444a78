// Test data of latent attention: the latent from which keys and values are
// computed.
#ifndef SHARDC_VERIFY_CASES_LATENT_DATA_H_
#define SHARDC_VERIFY_CASES_LATENT_DATA_H_

#include "exec/attention/attention_problem.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Sets key_heads to heads, and value_dim to latent_value_dim if that is set.
void SizeLatent(Sizes& sizes);

// Returns true if the case's keys are computed from a latent. The operation
// must be a latent one, there must be as many key heads as query heads, and a
// head must have at least one rotated dim.
bool HasLatent(const Case& test);

// If HasLatent(test), adds to `problem` a latent of the case's sizes.
void AddLatent(const Case& test, exec::AttentionProblem& problem);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_LATENT_DATA_H_
