// What leaves all devices over a cache trace, by closed formulas of its
// layouts; independent of the ledger.
#ifndef SHARDC_VERIFY_TRACES_TRACE_BYTES_H_
#define SHARDC_VERIFY_TRACES_TRACE_BYTES_H_

#include <cstdint>

#include "verify/cases/trace.h"

namespace shardc::verify {

// Of one that runs to its end.
int64_t TraceBytes(const CacheTrace& trace);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_TRACE_BYTES_H_
