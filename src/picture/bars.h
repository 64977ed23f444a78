// Bars made of character cells: where each part ends, and where the budget is.
#ifndef SHARDC_PICTURE_BARS_H_
#define SHARDC_PICTURE_BARS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace shardc::picture {

// `bytes` of `scale` in cells of `width`, rounded to the nearest; scale is at
// least 1.
int64_t CellsOf(int64_t bytes, int64_t scale, int64_t width);

// Cells of each part of a bar; they add up to the cells of the sum. A part that
// has bytes gets at least one cell if no other part loses its only one.
std::vector<int64_t> CellsOf(std::span<const int64_t> parts, int64_t scale,
                             int64_t width);

// Returns the bytes that a bar's full width stands for: 4 % more than the
// larger of budget and peak.
int64_t ScaleOf(int64_t budget, int64_t peak);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_BARS_H_
