// Adds the traces of caches and pages to a matrix.
#ifndef SHARDC_VERIFY_CASES_TRACE_CASES_H_
#define SHARDC_VERIFY_CASES_TRACE_CASES_H_

#include "resolve/resolve.h"
#include "verify/cases/matrix.h"

namespace shardc::verify {

// Adds traces for each generation mode and dtype. If flash_decoding was
// requested, adds a trace that decodes over a cache. If the model also has a
// sliding window shorter than the keys, adds a second trace, over a cache that
// reuses slots. For each requested paged operation, adds a trace with requests
// that share pages, unless the rules shard the pages by length or head dim.
void AddTraces(const Request& request, const Resolver& resolver,
               const Resolver& used_resolver, Matrix& matrix);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_TRACE_CASES_H_
