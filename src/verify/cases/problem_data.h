// Test data that reveals errors of sharding.
#ifndef SHARDC_VERIFY_CASES_PROBLEM_DATA_H_
#define SHARDC_VERIFY_CASES_PROBLEM_DATA_H_

#include "exec/attention/attention_problem.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Returns the inputs of a case, computed from its seed. Heads and batch rows
// differ in mean and norm, and positions in mean, so that elements in a wrong
// place cause an error above the rounding of bfloat16. Numbers are rounded to
// the case's dtype, keys and values to the cache's, so that the reference reads
// the rounded ones too.
exec::AttentionProblem MakeProblem(const Case& test, int threads = 1);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_PROBLEM_DATA_H_
