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
#include "stored/cover.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "source/checked.h"
#include "source/index.h"
#include "source/wording.h"

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
      return "the piece " + BoxText(box) + " ends outside the shape " +
             ShapeText(shape);
    }
    const auto sum = CheckedAdd(held, box.Elements());
    if (!sum) return "the pieces overlap";
    held = *sum;
  }
  if (held != all) {
    return (held < all ? std::string("the pieces hold ")
                       : std::string("pieces overlap: they hold ")) +
           CountText(held) + " of " + Counted(all, "element");
  }
  const std::vector<size_t> dims = DividedDims(shape, boxes);
  if (all == 0 || dims.empty()) return std::nullopt;
  const Points points(shape, boxes, dims);
  if (dims.size() > 20 || !points.fits() ||
      (boxes.size() + 1) << dims.size() > kMaxCorners) {
    return Counted(static_cast<int64_t>(boxes.size()), "piece") + " along " +
           Counted(static_cast<int64_t>(dims.size()), "dimension") +
           " are too many to compare";
  }
  std::vector<Corner> corners;
  corners.reserve((boxes.size() + 1) << dims.size());
  points.AddCorners(FullBox(shape), -1, corners);
  for (const Box& box : boxes) points.AddCorners(box, 1, corners);
  if (AllCancel(corners)) return std::nullopt;
  return "two pieces overlap, and as many elements are in none";
}

}  // namespace shardc::stored
