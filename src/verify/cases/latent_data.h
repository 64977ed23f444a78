// Test data of latent attention: the latent that keys and values come from.
#ifndef SHARDC_VERIFY_CASES_LATENT_DATA_H_
#define SHARDC_VERIFY_CASES_LATENT_DATA_H_

#include "exec/attention/attention_problem.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Sets the sizes of a latent attention: one key head for each query head, and
// values of their own size.
void SizeLatent(Sizes& sizes);

// Returns false if there are fewer key heads than query heads: no latent gives
// these.
bool HasLatent(const Case& test);

// Adds a latent of the case's sizes if it has one. Key and value then have no
// elements, since nothing reads the expanded form.
void AddLatent(const Case& test, exec::AttentionProblem& problem);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_LATENT_DATA_H_
