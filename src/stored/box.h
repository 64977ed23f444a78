// Defines rectangular parts of tensors.
#ifndef SHARDC_STORED_BOX_H_
#define SHARDC_STORED_BOX_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/manifest.h"

namespace shardc {

// A rectangular part of a tensor. `offset` and `shape` have an entry for each
// dimension. A box without dimensions (rank 0) is one element.
struct Box {
  Shape offset;
  Shape shape;
  bool operator==(const Box&) const = default;
  auto operator<=>(const Box&) const = default;

  int64_t Elements() const;
};

Box FullBox(const Shape& shape);

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

namespace shardc::stored {

// Returns nullopt if every element of the array is in exactly one box.
// Otherwise returns the reason as part of a sentence, in which the boxes are
// called pieces ("the pieces hold 90 of 100 elements"). Also returns a reason
// if there are too many boxes or dimensions to compare. Boxes must have the
// array's rank and at least one element. For n boxes the time is proportional
// to n log n times 2 to the power of d, where d is the number of dimensions
// that some box does not cover in full.
std::optional<std::string> WhyNotCovered(const Shape& shape,
                                         const std::vector<Box>& boxes);

}  // namespace shardc::stored

namespace shardc {

// Copies `part` from the buffer `from` to the buffer `to`. The buffer `from`
// contains `from_region` in row-major order, and `to` contains `to_region`.
// Both regions must contain `part`. Indices of regions are counted in units of
// `unit_bytes` bytes, which are elements or single bytes.
void CopyRegion(const Region& part, const Region& from_region, const char* from,
                const Region& to_region, char* to, int64_t unit_bytes);

// Calls `run` for each run of `part` that is contiguous in both regions, in
// row-major order. `from` and `to` are the offsets of the run from the start of
// `from_region` and `to_region`. `units` is the length of the run. All three
// are in units. If `run` returns false, stops and returns false.
bool ForEachRun(
    const Region& part, const Region& from_region, const Region& to_region,
    const std::function<bool(int64_t from, int64_t to, int64_t units)>& run);

// Returns whether `part` is one contiguous run in the row-major order of
// `region`.
bool IsOneRun(const Region& part, const Region& region);

}  // namespace shardc

#endif  // SHARDC_STORED_BOX_H_
