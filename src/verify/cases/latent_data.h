// Test data of latent attention: the latent from which keys and values are
// computed.
#ifndef SHARDC_VERIFY_CASES_LATENT_DATA_H_
#define SHARDC_VERIFY_CASES_LATENT_DATA_H_

#include "exec/attention/attention_problem.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Sets the sizes for latent attention: as many key heads as query heads, and
// the size of its values.
void SizeLatent(Sizes& sizes);

// Returns whether a latent can give the case's keys: there are not fewer key
// heads than query heads.
bool HasLatent(const Case& test);

// Adds a latent of the case's sizes, if HasLatent. Key and value then have no
// elements, since nothing reads the expanded form.
void AddLatent(const Case& test, exec::AttentionProblem& problem);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_LATENT_DATA_H_
