// Copies rectangular parts of arrays between buffers in memory.
#ifndef SHARDC_STORED_GATHER_H_
#define SHARDC_STORED_GATHER_H_

#include <cstdint>
#include <functional>

#include "stored/region.h"

namespace shardc {

// Copies `part` from the buffer `from` to the buffer `to`. The buffer `from`
// contains `from_region` in row-major order, and `to` contains `to_region`.
// Both regions must contain `part`. Indices of regions are counted in units of
// `unit_bytes` bytes, which are elements or single bytes.
void CopyRegion(const Region& part, const Region& from_region, const char* from,
                const Region& to_region, char* to, int64_t unit_bytes);

// Calls `run` for each run of `part` that is contiguous in both regions, in
// row-major order. `from` and `to` are the offsets of the run from the start of
// `from_region` and `to_region`. `units` is the length of the run. All three
// are in units. If `run` returns false, stops and returns false.
bool ForEachRun(
    const Region& part, const Region& from_region, const Region& to_region,
    const std::function<bool(int64_t from, int64_t to, int64_t units)>& run);

// Returns whether `part` is one contiguous run in the row-major order of
// `region`.
bool IsOneRun(const Region& part, const Region& region);

}  // namespace shardc

#endif  // SHARDC_STORED_GATHER_H_
