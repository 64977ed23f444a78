// The row of a table of position biases for the distance of a key from its
// query: of keys before the query, or of both sides with half of the rows each.
// Half of a side's rows are for one distance each; the others are for ranges of
// distances, each longer by a constant factor, the last from `most` on.
#ifndef SHARDC_EXEC_STEP_DISTANCE_H_
#define SHARDC_EXEC_STEP_DISTANCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace shardc::exec {

// `behind` is the number of places by which the key comes after the query.
inline int64_t DistanceRow(int64_t behind, int64_t rows, int64_t most,
                           bool both) {
  const int64_t side = both ? rows / 2 : rows;
  const int64_t begin = both && behind > 0 ? side : 0;
  const int64_t distance =
      both && behind > 0 ? behind : std::max<int64_t>(-behind, 0);
  const int64_t near = side / 2;
  if (distance < near) return begin + distance;
  if (near == 0 || distance >= most) return begin + side - 1;
  const double of_far =
      std::log(static_cast<double>(distance) / static_cast<double>(near)) /
      std::log(static_cast<double>(most) / static_cast<double>(near));
  const auto far =
      static_cast<int64_t>(of_far * static_cast<double>(side - near));
  return begin + std::min(near + far, side - 1);
}

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_STEP_DISTANCE_H_
