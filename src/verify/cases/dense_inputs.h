// A case as input of the dense reference: unsharded tensors in double and their
// options, computed without the program under test.
#ifndef SHARDC_VERIFY_CASES_DENSE_INPUTS_H_
#define SHARDC_VERIFY_CASES_DENSE_INPUTS_H_

#include "dense/attention.h"
#include "dense/latent.h"
#include "dense/narrow.h"
#include "exec/attention/attention_problem.h"
#include "model/layout.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Returns [B, L, N, D] in float64 for a tensor in any layout.
dense::Array DenseOf(const exec::Buffer& buffer, Layout layout);
dense::Latent LatentOf(const exec::LatentInputs& latent);

dense::Options OptionsOf(const exec::AttentionOptions& options);
// Returns the arithmetic that the case's settings select.
dense::Narrow NarrowOf(const Case& test);

// Rounds inputs to the runtime dtype if one is set, and then to the pages'
// int8. Positions of packed tokens follow from their segments. A block table is
// an input only if it is test data: the tables that `causal`, `sliding` and
// `global` make hide only keys that the masks hide too.
dense::Inputs InputsOf(const Case& test, const exec::AttentionProblem& problem);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_DENSE_INPUTS_H_
