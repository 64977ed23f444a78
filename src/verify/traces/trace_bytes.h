// The bytes that leave each device in a cache trace, by collective. They are
// computed by closed formulas from the trace's layouts. The ledger is not used,
// because it is checked against them.
#ifndef SHARDC_VERIFY_TRACES_TRACE_BYTES_H_
#define SHARDC_VERIFY_TRACES_TRACE_BYTES_H_

#include "exec/machine/ledger.h"
#include "verify/cases/trace.h"

namespace shardc::verify {

// Returns the bytes of a trace in which no step fails.
exec::SentBytes TraceBytes(const CacheTrace& trace);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_TRACE_BYTES_H_
