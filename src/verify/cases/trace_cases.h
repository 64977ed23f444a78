// Adds the traces of caches and pages to a matrix.
#ifndef SHARDC_VERIFY_CASES_TRACE_CASES_H_
#define SHARDC_VERIFY_CASES_TRACE_CASES_H_

#include "resolve/resolve.h"
#include "verify/cases/matrix.h"

namespace shardc::verify {

// If flash_decoding was requested, adds decoding over a cache in each
// generation mode and dtype, and the same over a rolling cache if the model has
// a sliding window shorter than the keys. For each paged operation adds a trace
// of pages that requests share, unless the rules shard its pages by length or
// head dim.
void AddTraces(const Request& request, const Resolver& resolver,
               const Resolver& used_resolver, Matrix& matrix);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_TRACE_CASES_H_
