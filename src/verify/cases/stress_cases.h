// Cases that go with every run, because the others cannot show what they do.
#ifndef SHARDC_VERIFY_CASES_STRESS_CASES_H_
#define SHARDC_VERIFY_CASES_STRESS_CASES_H_

#include <vector>

#include "verify/cases/case.h"
#include "verify/cases/matrix.h"

namespace shardc::verify {

// For each operation of which a case ran: one of 512 keys in bfloat16, since
// short sums hide an accumulator of few bits, and one of logits about +-100,
// unless it is left out or asked for in cases of its own. They take the sizes
// `least`, and of the operation's first case that ran all else.
std::vector<Case> StressCases(const Request& request, const Sizes& least,
                              const std::vector<Case>& cases,
                              const std::vector<CaseResult>& results);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_STRESS_CASES_H_
