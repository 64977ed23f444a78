// A rectangular region of an array: a half-open range in each dimension.
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
  // Returns the number of units (elements or bytes) that precede the first unit
  // of `inner` in the row-major order of this region. This region must contain
  // `inner`.
  int64_t OffsetOf(const Region& inner) const;
};

// Returns the region of a box. The region of a scalar is a row of one element.
Region RegionOf(const Box& box);

}  // namespace shardc

#endif  // SHARDC_STORED_REGION_H_
