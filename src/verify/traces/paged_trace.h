// Runs pages through a trace of several requests that share a prefix: whatever
// one of them writes, the others must still read their own tokens.
#ifndef SHARDC_VERIFY_TRACES_PAGED_TRACE_H_
#define SHARDC_VERIFY_TRACES_PAGED_TRACE_H_

#include <cstdint>

#include "verify/cases/trace.h"
#include "verify/traces/cache_trace.h"

namespace shardc::verify {

// Where heads cannot be sharded in the pages they are replicated, as in the
// operations, with a remark. After each step every token of every request is
// read and compared bit by bit with what was written.
CacheTraceResult RunPagedTrace(const PagedTrace& trace,
                               const RunOptions& options);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_PAGED_TRACE_H_
