// A squarified treemap (Bruls, Huizing, van Wijk 2000): rectangles whose areas
// are as their bytes, as square as a row of them can be.
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

// A box for each of the weights, in their order, which is to be from the
// largest on; together they fill `all`. A weight of 0 gets an empty box.
std::vector<Box> Squarify(std::span<const int64_t> weights, const Box& all);

}  // namespace shardc::picture

#endif  // SHARDC_PICTURE_TREEMAP_H_
