// Computes the ALiBi slope of each head: the number by which a score falls for
// each token between key and query.
//
// If the number n of heads is a power of two, the slopes are 2^(-8/n),
// 2^(-16/n) and so on. Otherwise let m be the largest power of two below n. The
// first m heads have the slopes of a model with m heads. The remaining heads
// have the first, third, fifth and so on of the slopes of a model with 2m
// heads.
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
