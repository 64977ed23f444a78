// The traces of caches among a matrix's cases.
#ifndef SHARDC_VERIFY_CASES_TRACE_CASES_H_
#define SHARDC_VERIFY_CASES_TRACE_CASES_H_

#include "resolve/resolve.h"
#include "verify/cases/matrix.h"

namespace shardc::verify {

// Decoding over a cache in each generation mode and dtype, where
// flash_decoding is asked for; over one that rolls as well, where the model
// has a sliding window; and pages that requests share, for each paged
// operation whose pages the rules do not split by length.
void AddTraces(const Request& request, const Resolver& resolver,
               const Mesh& mesh, Matrix& matrix);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_TRACE_CASES_H_
