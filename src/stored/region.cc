#include "stored/region.h"

#include <algorithm>
#include <cstddef>

namespace shardc {

bool Region::Empty() const {
  for (size_t i = 0; i < begin.size(); ++i) {
    if (begin[i] >= end[i]) return true;
  }
  return false;
}

int64_t Region::Units() const {
  int64_t out = 1;
  for (size_t i = 0; i < begin.size(); ++i) {
    out *= std::max<int64_t>(end[i] - begin[i], 0);
  }
  return out;
}

Region Region::Intersect(const Region& a, const Region& b) {
  Region out = a;
  for (size_t i = 0; i < out.begin.size(); ++i) {
    out.begin[i] = std::max(a.begin[i], b.begin[i]);
    out.end[i] = std::min(a.end[i], b.end[i]);
  }
  return out;
}

bool Region::Overlap(const Region& a, const Region& b) {
  for (size_t i = 0; i < a.begin.size(); ++i) {
    if (std::max(a.begin[i], b.begin[i]) >= std::min(a.end[i], b.end[i])) {
      return false;
    }
  }
  return true;
}

int64_t Region::OffsetOf(const Region& inner) const {
  int64_t out = 0;
  for (size_t i = 0; i < begin.size(); ++i) {
    out = out * (end[i] - begin[i]) + inner.begin[i] - begin[i];
  }
  return out;
}

Region RegionOf(const Box& box) {
  if (box.shape.empty()) return {{0}, {1}};
  Region out{box.offset, box.offset};
  for (size_t i = 0; i < box.shape.size(); ++i) out.end[i] += box.shape[i];
  return out;
}

}  // namespace shardc
