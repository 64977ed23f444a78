// Into how many shards a request's layouts split each dimension.
#ifndef SHARDC_VERIFY_CASES_SPLITS_H_
#define SHARDC_VERIFY_CASES_SPLITS_H_

#include "verify/cases/matrix.h"
#include "verify/cases/reduced_sizes.h"

namespace shardc::verify {

// Covers every mode and layout that runs, a cache's prefill among them, and
// every tensor; also the splits that a policy shrinks another split to.
Splits SplitsOf(const Request& request, const Resolver& resolver,
                const Mesh& mesh);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_SPLITS_H_
