// Cases that are added to every run, for faults that no other case reveals.
#ifndef SHARDC_VERIFY_CASES_STRESS_CASES_H_
#define SHARDC_VERIFY_CASES_STRESS_CASES_H_

#include <vector>

#include "verify/cases/case.h"
#include "verify/cases/matrix.h"

namespace shardc::verify {

// Returns up to two cases for each operation of which a case ran. One has about
// 512 keys in bfloat16, since short sums hide an accumulator of few bits,
// unless `cases` has such a case. The other has logits of about +-100, unless
// it is excluded or requested separately. They have the sizes `least`; all else
// is that of the operation's first case that ran.
std::vector<Case> StressCases(const Request& request, const Sizes& least,
                              const std::vector<Case>& cases,
                              const std::vector<CaseResult>& results);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_STRESS_CASES_H_
