// Data of latent attention: what keys and values of all heads come from.
#ifndef SHARDC_VERIFY_CASES_LATENT_DATA_H_
#define SHARDC_VERIFY_CASES_LATENT_DATA_H_

#include "exec/attention/attention_problem.h"
#include "exec/attention/reference.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// A latent of twice the head dim, a quarter of the head dim rotated. Key and
// value become its expansion, rounded. Nothing happens where key heads are
// not as many as query heads: such keys come from no latent.
void AddLatent(const Case& test, exec::AttentionProblem& problem);

// Key and value [B, S, H, D] expanded in float64, whatever the layout.
void ExpandLatent(const exec::AttentionProblem& problem,
                  exec::ReferenceInputs& in);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_LATENT_DATA_H_
