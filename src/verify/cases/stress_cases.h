// Cases that are added to every run, for faults that no other case reveals.
#ifndef SHARDC_VERIFY_CASES_STRESS_CASES_H_
#define SHARDC_VERIFY_CASES_STRESS_CASES_H_

#include <vector>

#include "verify/cases/case.h"
#include "verify/cases/matrix.h"

namespace shardc::verify {

// Returns up to two cases for each operation of which a case ran. Each is a
// copy of the operation's first case that ran, with the sizes `least` and a few
// changes. The first case has at least 512 keys in bfloat16, since short sums
// hide an accumulator of few bits. It has no window and no rows of different
// lengths, and a causal mask only if the operation reads pages. It is omitted
// if a case with at least 256 keys in bfloat16 and without a window ran. The
// second case has logits of about +-100. It is omitted if the request excludes
// it or has that feature.
std::vector<Case> StressCases(const Request& request, const Sizes& least,
                              const std::vector<Case>& cases,
                              const std::vector<CaseResult>& results);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_STRESS_CASES_H_
