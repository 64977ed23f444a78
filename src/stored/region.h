// A half-open range of an array in each dimension.
#ifndef SHARDC_STORED_REGION_H_
#define SHARDC_STORED_REGION_H_

#include <cstdint>
#include <vector>

#include "stored/box.h"

namespace shardc {

struct Region {
  std::vector<int64_t> begin;
  std::vector<int64_t> end;

  bool Empty() const;
  int64_t Units() const;
  static Region Intersect(const Region& a, const Region& b);
  static bool Overlap(const Region& a, const Region& b);
  // Returns how many units precede the first unit of `inner`, which this region
  // must contain, in the row-major order of this region.
  int64_t OffsetOf(const Region& inner) const;
};

// Returns the region of a box. A scalar becomes a row of one element.
Region RegionOf(const Box& box);

}  // namespace shardc

#endif  // SHARDC_STORED_REGION_H_
