// Adds the traces of caches and pages to a matrix.
#ifndef SHARDC_VERIFY_CASES_TRACE_CASES_H_
#define SHARDC_VERIFY_CASES_TRACE_CASES_H_

#include "resolve/resolve.h"
#include "verify/cases/matrix.h"

namespace shardc::verify {

// Adds decoding over a cache in each generation mode and dtype if
// flash_decoding was requested; the same over a rolling cache if the model has
// a sliding window; and pages that requests share for each paged operation
// whose pages the rules do not shard by length.
void AddTraces(const Request& request, const Resolver& resolver,
               const Resolver& used_resolver, Matrix& matrix);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_TRACE_CASES_H_
