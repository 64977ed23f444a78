// Copies a box from one array to another, as a sequence of contiguous runs of
// elements. A run covers the last dimension of the box. It also covers an
// earlier dimension if the box spans all later dimensions of both arrays. All
// other dimensions are loops, with one stride for each array. For example:
//
//   The box [1:3, 2:6] of an array of shape [4, 8] is copied to a new array of
//   shape [2, 4] by two runs of 4 elements. The runs begin at offsets 10 and 18
//   of the first array, and at offsets 0 and 4 of the new array.
#include "stored/gather.h"

#include <cstring>
#include <vector>

#include "source/index.h"

namespace shardc {
namespace {

// The contiguous runs of a box, described as nested loops over the dimensions
// outside a run. All runs have the length `run`. Each loop has one stride in
// the source region and one in the target region. Lengths and strides are
// counted in units, which are elements or bytes.
struct Rows {
  std::vector<int64_t> counts;  // sizes of the dimensions outside the run
  std::vector<int64_t> from_strides;
  std::vector<int64_t> to_strides;
  // The offsets of the first run in the source and in the target, in units.
  int64_t from = 0;
  int64_t to = 0;
  int64_t run = 1;  // length of a run, in units
};

int64_t Extent(const Region& region, size_t dim) {
  return region.end[dim] - region.begin[dim];
}

Rows Measure(const Region& part, const Region& from, const Region& to) {
  Rows rows;
  rows.from = from.OffsetOf(part);
  rows.to = to.OffsetOf(part);
  int64_t from_stride = 1, to_stride = 1;
  bool folding = true;
  for (size_t dim = part.begin.size(); dim > 0;) {
    --dim;
    const int64_t count = Extent(part, dim);
    if (folding) {
      rows.run *= count;
    } else if (count != 1) {
      rows.counts.insert(rows.counts.begin(), count);
      rows.from_strides.insert(rows.from_strides.begin(), from_stride);
      rows.to_strides.insert(rows.to_strides.begin(), to_stride);
    }
    folding = folding && count == Extent(from, dim) && count == Extent(to, dim);
    from_stride *= Extent(from, dim);
    to_stride *= Extent(to, dim);
  }
  return rows;
}

// Calls `visit(from, to)` for each run in order, with the offsets of the run in
// both regions. If `visit` returns false, stops and returns false.
template <typename Visit>
bool Walk(const Rows& rows, Visit visit) {
  const size_t depth = rows.counts.size();
  if (depth == 0) return visit(rows.from, rows.to);
  std::vector<int64_t> at(depth, 0);
  int64_t from = rows.from, to = rows.to;
  for (;;) {
    int64_t inner_from = from, inner_to = to;
    for (int64_t i = 0; i < rows.counts[depth - 1]; ++i) {
      if (!visit(inner_from, inner_to)) return false;
      inner_from += rows.from_strides[depth - 1];
      inner_to += rows.to_strides[depth - 1];
    }
    size_t dim = depth - 1;
    for (;;) {
      if (dim == 0) return true;
      --dim;
      from += rows.from_strides[dim];
      to += rows.to_strides[dim];
      if (++at[dim] < rows.counts[dim]) break;
      from -= rows.from_strides[dim] * rows.counts[dim];
      to -= rows.to_strides[dim] * rows.counts[dim];
      at[dim] = 0;
    }
  }
}

// Copies runs of `Size` bytes. The compiler knows the size, which makes copies
// of tiny runs fast.
template <size_t Size>
void CopyFixed(const Rows& rows, const char* from, char* to, int64_t unit) {
  Walk(rows, [&](int64_t source, int64_t target) {
    std::memcpy(to + target * unit, from + source * unit, Size);
    return true;
  });
}

}  // namespace

void CopyRegion(const Region& part, const Region& from_region, const char* from,
                const Region& to_region, char* to, int64_t unit_bytes) {
  const Rows rows = Measure(part, from_region, to_region);
  const auto size = AsIndex(rows.run * unit_bytes);
  switch (size) {
    case 1:
      return CopyFixed<1>(rows, from, to, unit_bytes);
    case 2:
      return CopyFixed<2>(rows, from, to, unit_bytes);
    case 4:
      return CopyFixed<4>(rows, from, to, unit_bytes);
    case 8:
      return CopyFixed<8>(rows, from, to, unit_bytes);
    case 16:
      return CopyFixed<16>(rows, from, to, unit_bytes);
    default:
      break;
  }
  Walk(rows, [&](int64_t source, int64_t target) {
    std::memcpy(to + target * unit_bytes, from + source * unit_bytes, size);
    return true;
  });
}

bool ForEachRun(
    const Region& part, const Region& from_region, const Region& to_region,
    const std::function<bool(int64_t from, int64_t to, int64_t units)>& run) {
  const Rows rows = Measure(part, from_region, to_region);
  return Walk(
      rows, [&](int64_t from, int64_t to) { return run(from, to, rows.run); });
}

bool IsOneRun(const Region& part, const Region& region) {
  return Measure(part, region, part).counts.empty();
}

}  // namespace shardc
