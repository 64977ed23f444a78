// What leaves each device over a cache trace, by collective, from closed
// formulas of its layouts; independent of the ledger.
#ifndef SHARDC_VERIFY_TRACES_TRACE_BYTES_H_
#define SHARDC_VERIFY_TRACES_TRACE_BYTES_H_

#include "exec/machine/ledger.h"
#include "verify/cases/trace.h"

namespace shardc::verify {

// Returns the bytes of a trace that runs to its end.
exec::SentBytes TraceBytes(const CacheTrace& trace);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_TRACE_BYTES_H_
