// Decides from layouts, without a run, whether the trace of a cache can run.
#ifndef SHARDC_VERIFY_TRACES_TRACE_LAYOUTS_H_
#define SHARDC_VERIFY_TRACES_TRACE_LAYOUTS_H_

#include <optional>

#include "exec/machine/sharded.h"
#include "verify/cases/trace.h"

namespace shardc::verify {

// Returns the error of the first layout that a run of the trace would refuse,
// or nullopt if the trace can run.
std::optional<exec::LayoutError> TraceRefusal(const CacheTrace& trace);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_TRACES_TRACE_LAYOUTS_H_
