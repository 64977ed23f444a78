// Data of latent attention: what keys and values of all heads come from.
#ifndef SHARDC_VERIFY_CASES_LATENT_DATA_H_
#define SHARDC_VERIFY_CASES_LATENT_DATA_H_

#include "exec/attention/attention_problem.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Its keys come from a latent row, one for each query head, and values have
// sizes of their own.
void SizeLatent(Sizes& sizes);

// A latent of the case's sizes. Key and value become its expansion, rounded.
// Nothing happens where key heads are not as many as query heads: such keys
// come from no latent.
void AddLatent(const Case& test, exec::AttentionProblem& problem);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_LATENT_DATA_H_
