// The bytes that each device sends in a cache trace, by collective. Closed
// formulas compute them from the trace's layouts. The formulas do not read the
// ledger (the bytes that a run has recorded), because the ledger is checked
// against the formulas.
#ifndef SHARDC_VERIFY_TRACES_TRACE_BYTES_H_
#define SHARDC_VERIFY_TRACES_TRACE_BYTES_H_

#include "exec/machine/ledger.h"
#include "verify/cases/trace.h"

namespace shardc::verify {

// Returns the bytes that each device sends in a trace in which no step fails.
exec::SentBytes TraceBytes(const CacheTrace& trace);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_TRACE_BYTES_H_
