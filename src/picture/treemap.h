// Computes a squarified treemap (Bruls, Huizing, van Wijk 2000). The treemap
// consists of rectangles whose areas are proportional to bytes. The rectangles
// are arranged in rows so that each one is close to a square.
#ifndef SHARDC_PICTURE_TREEMAP_H_
#define SHARDC_PICTURE_TREEMAP_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shardc::picture {

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

// Returns a box for each weight. The weights must be sorted from the largest to
// the smallest. The boxes fill `all`, unless all weights are 0. A weight of 0
// has an empty box.
std::vector<Box> Squarify(std::span<const int64_t> weights, const Box& all);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_TREEMAP_H_
