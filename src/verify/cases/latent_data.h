// Data of latent attention: what keys and values of all heads come from.
#ifndef SHARDC_VERIFY_CASES_LATENT_DATA_H_
#define SHARDC_VERIFY_CASES_LATENT_DATA_H_

#include "exec/attention/attention_problem.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Its keys come from a latent row, one for each query head, and values have
// sizes of their own.
void SizeLatent(Sizes& sizes);

// Key heads that are not as many as the query's come from no latent.
bool HasLatent(const Case& test);

// A latent of the case's sizes, where there is one. Key and value are hollow
// beside it: nobody reads what it expands to.
void AddLatent(const Case& test, exec::AttentionProblem& problem);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_LATENT_DATA_H_
