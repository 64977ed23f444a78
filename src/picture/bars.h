// Computes the lengths of bars that are drawn with characters.
#ifndef SHARDC_PICTURE_BARS_H_
#define SHARDC_PICTURE_BARS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
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

// Computes a squarified treemap (Bruls, Huizing, van Wijk 2000). The treemap
// consists of rectangles whose areas are proportional to bytes. The rectangles
// are arranged in rows so that each one is close to a square.

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

// Returns a box for each weight. The weights must be sorted from the largest to
// the smallest. The boxes fill `all`, unless all weights are 0. A weight of 0
// has an empty box.
std::vector<Box> Squarify(std::span<const int64_t> weights, const Box& all);

// The index that represents the gap.
inline constexpr int64_t kGap = -1;
inline constexpr int64_t kMostPieces = 16;

// Returns the indices to draw of a row of `count` elements. If there are at
// most `most` elements, returns all. Otherwise returns the first 7 indices (or
// `most` - 2 of them, if that is less), then kGap, and then the last index.
// `most` is at least 3.
inline std::vector<int64_t> Shown(int64_t count, int64_t most) {
  std::vector<int64_t> out;
  const bool all = count <= most;
  const int64_t first = all ? count : std::min<int64_t>(7, most - 2);
  for (int64_t i = 0; i < first; ++i) out.push_back(i);
  if (!all) {
    out.push_back(kGap);
    out.push_back(count - 1);
  }
  return out;
}

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_BARS_H_
