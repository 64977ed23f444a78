// Whether decoding prefetches by instructions.
#ifndef SHARDC_EXEC_KERNELS_PREFETCH_H_
#define SHARDC_EXEC_KERNELS_PREFETCH_H_

namespace shardc::exec {

// Returns whether prefetch instructions make a sequential read of a cache
// faster on this processor. It is queried once; results never depend on it.
bool PrefetchHelps();

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_KERNELS_PREFETCH_H_
