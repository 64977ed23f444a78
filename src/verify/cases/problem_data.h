// Test data that makes errors visible.
#ifndef SHARDC_VERIFY_CASES_PROBLEM_DATA_H_
#define SHARDC_VERIFY_CASES_PROBLEM_DATA_H_

#include "exec/attention/attention_problem.h"
#include "exec/attention/reference.h"
#include "model/layout.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Inputs of a case from its seed. Heads, key heads, batch rows and positions
// differ in mean and norm, so that a swapped or shifted one cannot hide under
// bfloat16; v is never constant over keys or heads. Values are rounded to the
// case's dtype, keys and values to the cache's: the reference reads the rounded
// ones.
exec::AttentionProblem MakeProblem(const Case& test, int threads = 1);

// The same problem for the dense reference, inputs rounded to the runtime dtype
// where one is set. blocksparse's table becomes a mask. Nothing, and why, where
// the reference refuses.
std::optional<exec::ReferenceInputs> ReferenceInputsOf(
    const Case& test, const exec::AttentionProblem& problem, std::string& why);

// [B, L, N, D] in float64, whatever the layout.
exec::DenseArray DenseOf(const exec::Buffer& buffer, Layout layout);

// The largest |scale * q.k|, by which the float32 cap is scaled.
double LargestLogit(const exec::ReferenceInputs& in,
                    const exec::AttentionOptions& options);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_PROBLEM_DATA_H_
