// Test data that reveals errors.
#ifndef SHARDC_VERIFY_CASES_PROBLEM_DATA_H_
#define SHARDC_VERIFY_CASES_PROBLEM_DATA_H_

#include "exec/attention/attention_problem.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Returns the inputs of a case from its seed. Heads, key heads, batch rows and
// positions differ in mean and norm, so that a swapped or shifted one exceeds
// the rounding of bfloat16; v is never constant over keys or heads. Values are
// rounded to the case's dtype, keys and values to the cache's: the reference
// reads the rounded ones.
exec::AttentionProblem MakeProblem(const Case& test, int threads = 1);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_PROBLEM_DATA_H_
