// Creates the test data of a case. The data is random, with different means and
// scales, so that an element from a wrong place changes the result.
#ifndef SHARDC_VERIFY_CASES_PROBLEM_DATA_H_
#define SHARDC_VERIFY_CASES_PROBLEM_DATA_H_

#include "exec/attention/attention_problem.h"
#include "verify/cases/case.h"

namespace shardc::verify {

// Returns the inputs of a case, computed from its seed. Mean and norm depend on
// head and batch row, and the mean also on the position. An element in a wrong
// place therefore causes an error above the rounding of bfloat16. The query is
// rounded to the case's dtype, and key and value to the dtype in which they are
// stored (KeyDtype), so that the reference reads the rounded numbers too.
exec::AttentionProblem MakeProblem(const Case& test, int threads = 1);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_PROBLEM_DATA_H_
