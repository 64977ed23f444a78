// A case as the dense reference is given it: whole tensors in double, and what
// they mean, with nothing worked out by the program that is judged.
#ifndef SHARDC_VERIFY_CASES_DENSE_INPUTS_H_
#define SHARDC_VERIFY_CASES_DENSE_INPUTS_H_

#include "dense/attention.h"
#include "dense/latent.h"
#include "dense/narrow.h"
#include "exec/attention/attention_problem.h"
#include "model/layout.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// [B, L, N, D] in float64, whatever the layout.
dense::Array DenseOf(const exec::Buffer& buffer, Layout layout);
dense::Latent LatentOf(const exec::LatentInputs& latent);

dense::Options OptionsOf(const exec::AttentionOptions& options);
// Of the arithmetic that the case's settings ask for.
dense::Narrow NarrowOf(const Case& test);

// Inputs are rounded to the runtime dtype where one is set, and then to the
// pages' int8. Packed tokens' positions follow from their segments. A table of
// blocks is the test data's own; those that `causal`, `sliding` and `global`
// make hide nothing that the masks show.
dense::Inputs InputsOf(const Case& test, const exec::AttentionProblem& problem);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_DENSE_INPUTS_H_
