// Computes relative position buckets, as in T5. A table of position biases has
// rows, and each distance between a key and its query belongs to one row. A row
// is for one distance or for a range of distances.
//
// Without `both`, all rows are for keys that are not after the query. With
// `both`, the first half of the rows is for such keys, and the second half is
// for keys after the query. Let n be the number of rows for one direction. The
// first n/2 of these rows belong to the distances 0 to n/2 - 1. Each later row
// belongs to a range of distances, and the ranges grow by a constant factor
// from row to row. All distances from `most` on belong to the last row. For
// example:
//
//   8 rows, most 16:  distance 3 -> row 3, 4 and 5 -> row 4, 16 -> row 7
#ifndef SHARDC_EXEC_STEP_DISTANCE_H_
#define SHARDC_EXEC_STEP_DISTANCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace shardc::exec {

// Returns the row for a key that is `behind` places after its query, or before
// it if `behind` is negative. Without `both`, keys after the query have row 0,
// like the key at the query's own position.
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
