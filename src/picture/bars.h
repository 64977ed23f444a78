// Computes the lengths of bars that are drawn with characters.
#ifndef SHARDC_PICTURE_BARS_H_
#define SHARDC_PICTURE_BARS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace shardc::picture {

// Returns the length of a bar of `bytes`, in cells, if a bar of `scale` bytes
// (at least 1) has `width` cells. The length is rounded to the nearest cell,
// and is at most `width`.
int64_t CellsOf(int64_t bytes, int64_t scale, int64_t width);

// Returns the number of cells of each part of a bar. The sum of these numbers
// is the number of cells of a bar for the sum of `parts`. Each part that has
// bytes gets at least one cell, unless there are more such parts than cells.
std::vector<int64_t> CellsOf(std::span<const int64_t> parts, int64_t scale,
                             int64_t width);

// Returns the bytes that a bar of full width represents: 4 % more than the
// largest of `budget`, `peak` and 1.
int64_t ScaleOf(int64_t budget, int64_t peak);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_BARS_H_
