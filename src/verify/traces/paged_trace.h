// Runs a trace of pages with several requests that share a prefix. Each request
// must always read its own tokens, whichever tokens other requests write.
#ifndef SHARDC_VERIFY_TRACES_PAGED_TRACE_H_
#define SHARDC_VERIFY_TRACES_PAGED_TRACE_H_

#include <cstdint>

#include "verify/cases/trace.h"
#include "verify/traces/cache_trace.h"

namespace shardc::verify {

// Runs the trace. After each step, every token of every request is read and
// compared bit by bit with the token that was written. If the pages cannot be
// sharded over the head axes, heads are replicated, as in the paged operations,
// and the result has a remark.
CacheTraceResult RunPagedTrace(const PagedTrace& trace,
                               const RunOptions& options);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_PAGED_TRACE_H_
