// The bytes that leave each device in a cache trace, by collective, computed
// from closed formulas of its layouts and not from the ledger.
#ifndef SHARDC_VERIFY_TRACES_TRACE_BYTES_H_
#define SHARDC_VERIFY_TRACES_TRACE_BYTES_H_

#include "exec/machine/ledger.h"
#include "verify/cases/trace.h"

namespace shardc::verify {

// Returns the bytes of a trace, if it runs to its end.
exec::SentBytes TraceBytes(const CacheTrace& trace);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_TRACE_BYTES_H_
