// Boxes, which are rectangular parts of arrays: their bytes, the copy of one
// between two buffers, and the check that several of them cover an array
// without overlap.
#include "stored/box.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "source/size.h"
#include "source/wording.h"

namespace shardc {

int64_t Box::Elements() const {
  int64_t out = 1;
  for (const int64_t size : shape) out *= size;
  return out;
}

Box FullBox(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

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

// Checks whether boxes tile an array: whether every element is in exactly one
// box. The boxes need not form a grid. The check uses only the corners of the
// boxes and of the array.
//
// Each corner gets a count of +1 or -1. A coordinate of a corner is the start
// or the end of the box in that dimension. The count is +1 if the number of
// ends is even, and else -1. The number of boxes that contain an element is
// then the sum of the counts of all corners that are at or before the element
// in every dimension. So the boxes tile the array if and only if, at every
// point, the counts of the boxes' corners have the same sum as the counts of
// the array's corners. For example, two boxes of an array [0:5):
//
//   [0:2) and [2:5)   +1 at 0, -1 at 2; +1 at 2, -1 at 5
//                     The sums are +1 at 0 and -1 at 5, as for the array.
//   [0:2) and [3:5)   -1 at 2 and +1 at 3 remain: a gap.
//
// A comparison of volumes would not detect an overlap and a gap of the same
// size. A comparison of all pairs of boxes would take too long, because 100,000
// boxes have 5 billion pairs.

namespace shardc::stored {
namespace {

// The limit on the number of corners that are in memory at once. A corner takes
// 16 bytes.
constexpr size_t kMaxCorners = size_t{1} << 26;

std::string BoxText(const Box& box) {
  std::string out = "[";
  for (size_t i = 0; i < box.shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(box.offset[i]) + ":" +
           std::to_string(box.offset[i] + box.shape[i]);
  }
  return out + "]";
}

struct Corner {
  uint64_t point = 0;
  int64_t count = 0;
};

// Returns the dimensions that at least one box does not cover in full.
std::vector<size_t> DividedDims(const Shape& shape,
                                const std::vector<Box>& boxes) {
  std::vector<size_t> out;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const auto divided = [&](const Box& box) {
      return box.shape[dim] != shape[dim];
    };
    if (std::any_of(boxes.begin(), boxes.end(), divided)) out.push_back(dim);
  }
  return out;
}

// Assigns a number to each point of the grid that the edges of all boxes form.
class Points {
 public:
  Points(const Shape& shape, const std::vector<Box>& boxes,
         const std::vector<size_t>& dims)
      : dims_(dims) {
    for (const size_t dim : dims) {
      Shape cuts = {0, shape[dim]};
      for (const Box& box : boxes) {
        cuts.push_back(box.offset[dim]);
        cuts.push_back(box.offset[dim] + box.shape[dim]);
      }
      std::sort(cuts.begin(), cuts.end());
      cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
      const auto next = CheckedMul(total_, static_cast<int64_t>(cuts.size()));
      fits_ = fits_ && next;
      total_ = next.value_or(1);
      cuts_.push_back(std::move(cuts));
    }
  }

  // Returns whether the number of every point fits in 64 bits.
  bool fits() const { return fits_; }

  // Adds the corners of a box to `out`. Their counts are multiplied by `sign`.
  void AddCorners(const Box& box, int64_t sign,
                  std::vector<Corner>& out) const {
    const size_t count = size_t{1} << dims_.size();
    for (size_t corner = 0; corner < count; ++corner) {
      uint64_t point = 0;
      int64_t value = sign;
      for (size_t i = 0; i < dims_.size(); ++i) {
        const bool end = (corner >> i & 1) != 0;
        int64_t at = box.offset[dims_[i]];
        if (end) at += box.shape[dims_[i]];
        if (end) value = -value;
        const auto found =
            std::lower_bound(cuts_[i].begin(), cuts_[i].end(), at);
        point = point * cuts_[i].size() +
                static_cast<uint64_t>(found - cuts_[i].begin());
      }
      out.push_back({point, value});
    }
  }

 private:
  const std::vector<size_t>& dims_;
  std::vector<Shape> cuts_;
  int64_t total_ = 1;
  bool fits_ = true;
};

bool AllCancel(std::vector<Corner>& corners) {
  std::sort(corners.begin(), corners.end(),
            [](const Corner& a, const Corner& b) { return a.point < b.point; });
  for (size_t i = 0; i < corners.size();) {
    int64_t sum = 0;
    const uint64_t point = corners[i].point;
    for (; i < corners.size() && corners[i].point == point; ++i) {
      sum += corners[i].count;
    }
    if (sum != 0) return false;
  }
  return true;
}

}  // namespace

std::optional<std::string> WhyNotCovered(const Shape& shape,
                                         const std::vector<Box>& boxes) {
  const int64_t all = FullBox(shape).Elements();
  int64_t held = 0;
  for (const Box& box : boxes) {
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (box.offset[dim] >= 0 && box.shape[dim] <= shape[dim] &&
          box.offset[dim] <= shape[dim] - box.shape[dim]) {
        continue;
      }
      return "the shard " + BoxText(box) + " ends outside the shape " +
             ShapeText(shape);
    }
    const auto sum = CheckedAdd(held, box.Elements());
    if (!sum) return "the shards overlap";
    held = *sum;
  }
  if (held != all) {
    return (held < all ? std::string("the shards hold ")
                       : std::string("shards overlap: they hold ")) +
           CountText(held) + " of " + Counted(all, "element");
  }
  const std::vector<size_t> dims = DividedDims(shape, boxes);
  if (all == 0 || dims.empty()) return std::nullopt;
  const Points points(shape, boxes, dims);
  if (dims.size() > 20 || !points.fits() ||
      (boxes.size() + 1) << dims.size() > kMaxCorners) {
    return Counted(static_cast<int64_t>(boxes.size()), "shard") + " along " +
           Counted(static_cast<int64_t>(dims.size()), "dimension") +
           " are too many to compare";
  }
  std::vector<Corner> corners;
  corners.reserve((boxes.size() + 1) << dims.size());
  points.AddCorners(FullBox(shape), -1, corners);
  for (const Box& box : boxes) points.AddCorners(box, 1, corners);
  if (AllCancel(corners)) return std::nullopt;
  return "two shards overlap, and as many elements are in none";
}

}  // namespace shardc::stored

// Copies a box from one array to another, as a sequence of contiguous runs of
// elements. A run covers the last dimension of the box. It also covers an
// earlier dimension if the box spans all later dimensions of both arrays. All
// other dimensions are loops, with one stride for each array. For example:
//
//   The box [1:3, 2:6] of an array of shape [4, 8] is copied to a new array of
//   shape [2, 4] by two runs of 4 elements. The runs begin at offsets 10 and 18
//   of the first array, and at offsets 0 and 4 of the new array.

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
