// Half-open ranges of an array, one per dimension.
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
  // The number of units before the first one of `inner` (which this region
  // contains) in the row-major order of this region.
  int64_t OffsetOf(const Region& inner) const;
};

// The elements of a box; a scalar is a row of one element.
Region RegionOf(const Box& box);

}  // namespace shardc

#endif  // SHARDC_STORED_REGION_H_
