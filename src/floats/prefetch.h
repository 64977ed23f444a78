// Whether this processor reads memory faster with prefetch instructions.
#ifndef SHARDC_FLOATS_PREFETCH_H_
#define SHARDC_FLOATS_PREFETCH_H_

namespace shardc {

// Returns whether prefetch instructions make a sequential read of a cache
// faster on this processor. It is queried once; results never depend on it.
bool PrefetchHelps();

}  // namespace shardc

#endif  // SHARDC_FLOATS_PREFETCH_H_
