// Runs nested loops over a block of elements, and computes the offset of each
// element in several arrays with different strides.
#ifndef SHARDC_EXEC_STEP_NEST_H_
#define SHARDC_EXEC_STEP_NEST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/manifest.h"

namespace shardc::exec {

inline constexpr size_t kMostArrays = 8;
using Offsets = std::array<int64_t, kMostArrays>;

// Calls `body` for each element of `extent`, with the offset of that element in
// each array. `strides[i]` has the stride of array i along each dimension, and
// `base[i]` is the offset at which array i begins. The index of the last
// dimension changes fastest.
template <class F>
void ForNest(const Shape& extent, const std::vector<Shape>& strides,
             Offsets base, const F& body) {
  const size_t rank = extent.size(), arrays = strides.size();
  for (int64_t size : extent) {
    if (size == 0) return;
  }
  if (rank == 0) {
    body(base);
    return;
  }
  Shape at(rank, 0);
  const size_t last = rank - 1;
  while (true) {
    Offsets offsets = base;
    for (int64_t i = 0; i < extent[last]; ++i) {
      body(offsets);
      for (size_t a = 0; a < arrays; ++a) offsets[a] += strides[a][last];
    }
    size_t d = last;
    while (true) {
      if (d == 0) return;
      --d;
      for (size_t a = 0; a < arrays; ++a) base[a] += strides[a][d];
      if (++at[d] < extent[d]) break;
      for (size_t a = 0; a < arrays; ++a) base[a] -= strides[a][d] * extent[d];
      at[d] = 0;
    }
  }
}

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_NEST_H_
