// ALiBi slopes by head: the amount by which a score falls for each token
// between key and query. Of n heads, a power of two, they are 2^(-8/n),
// 2^(-16/n) and so on. Of another number, the first are those of the next
// smaller power of two, and the rest are every second one of the next greater.
#ifndef SHARDC_EXEC_STEP_SLOPES_H_
#define SHARDC_EXEC_STEP_SLOPES_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace shardc::exec {

inline double SlopeOf(int64_t heads, int64_t head) {
  const auto floor =
      static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  if (head < floor) {
    return std::exp2(-8.0 * static_cast<double>(head + 1) /
                     static_cast<double>(floor));
  }
  return std::exp2(-8.0 * static_cast<double>(2 * (head - floor) + 1) /
                   static_cast<double>(2 * floor));
}

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_SLOPES_H_
