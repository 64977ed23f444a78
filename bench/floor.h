// Measures the machine's highest rates of computing and of reading memory. The
// benchmarks divide other rates by them.
#ifndef SHARDC_BENCH_FLOOR_H_
#define SHARDC_BENCH_FLOOR_H_

#include <cstddef>
#include <cstdint>

namespace shardc::bench {

// Fused multiply-adds of the widest vectors, in registers alone. Returns the
// floating point operations done (two for each lane of each).
double SpinFma(int64_t rounds);

// Reads `bytes` (a multiple of 512) once, in order; returns their sum as
// integers, so that no read can be left out.
uint64_t ReadAll(const void* data, size_t bytes);

}  // namespace shardc::bench

#endif  // SHARDC_BENCH_FLOOR_H_
