// Data of latent attention: what keys and values of all heads come from.
#ifndef SHARDC_VERIFY_CASES_LATENT_DATA_H_
#define SHARDC_VERIFY_CASES_LATENT_DATA_H_

#include "exec/attention/attention_problem.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// A latent of twice the head dim, a quarter of the head dim rotated. Key and
// value become its expansion, rounded. Nothing happens where key heads are
// not as many as query heads: such keys come from no latent.
void AddLatent(const Case& test, exec::AttentionProblem& problem);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_LATENT_DATA_H_
