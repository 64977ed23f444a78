// Bars in whole cells: where each part ends, and where a budget stands.
#ifndef SHARDC_PICTURE_BARS_H_
#define SHARDC_PICTURE_BARS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace shardc::picture {

// `bytes` of `scale` in `width` cells, to the nearest; scale is at least 1.
int64_t CellsOf(int64_t bytes, int64_t scale, int64_t width);

// Cells of each part of a bar, so that they end where their sum does; a part
// that has bytes gets one where that takes none from another.
std::vector<int64_t> CellsOf(std::span<const int64_t> parts, int64_t scale,
                             int64_t width);

// What a bar's whole length stands for: the most of both and 4 % more.
int64_t ScaleOf(int64_t budget, int64_t peak);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_BARS_H_
