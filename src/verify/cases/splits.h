// Into how many parts a request's layouts cut each dimension.
#ifndef SHARDC_VERIFY_CASES_SPLITS_H_
#define SHARDC_VERIFY_CASES_SPLITS_H_

#include "verify/cases/matrix.h"
#include "verify/cases/reduced_sizes.h"

namespace shardc::verify {

// In any mode and layout that is run, a cache's prefill among them, and by any
// tensor; also those that a policy shrinks a split to.
Splits SplitsOf(const Request& request, const Resolver& resolver,
                const Mesh& mesh);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_SPLITS_H_
