// Lengths and areas: bars of characters, and a squarified treemap, in which the
// area of each rectangle stands for a number of bytes.
#include "picture/bars.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "source/size.h"

namespace shardc::picture {

int64_t CellsOf(int64_t bytes, int64_t scale, int64_t width) {
  const double share = static_cast<double>(bytes) / static_cast<double>(scale);
  const auto cells = std::llround(share * static_cast<double>(width));
  return std::clamp<int64_t>(cells, 0, width);
}

std::vector<int64_t> CellsOf(std::span<const int64_t> parts, int64_t scale,
                             int64_t width) {
  std::vector<int64_t> out;
  // Indices of the parts that have bytes, the largest part first.
  std::vector<size_t> some;
  int64_t sum = 0, end = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    sum = CheckedAdd(sum, parts[i]).value_or(INT64_MAX);
    const int64_t next = CellsOf(sum, scale, width);
    out.push_back(next - end);
    end = next;
    if (parts[i] > 0) some.push_back(i);
  }
  std::stable_sort(some.begin(), some.end(),
                   [&](size_t a, size_t b) { return parts[a] > parts[b]; });
  if (end <= static_cast<int64_t>(some.size())) {
    // Each part that has bytes gets one cell, the largest first, while there
    // are cells left.
    std::fill(out.begin(), out.end(), 0);
    for (size_t i = 0; i < static_cast<size_t>(end); ++i) out[some[i]] = 1;
    return out;
  }
  for (size_t i : some) {
    if (out[i] > 0) continue;
    --*std::max_element(out.begin(), out.end());
    ++out[i];
  }
  return out;
}

int64_t ScaleOf(int64_t budget, int64_t peak) {
  const int64_t most = std::max<int64_t>({budget, peak, 1});
  return CheckedAdd(most, most / 25).value_or(INT64_MAX);
}

// Arranges rectangles in rows along the shorter side of the free area. The next
// rectangle is added to the current row, unless that would increase the largest
// ratio of sides in the row. Otherwise it begins a new row:
//
//   weights 6, 6, 6, 6 in a box 6 x 4  ->  the first two are one above the
//                                          other, each 3 x 2

namespace {

// Returns the largest ratio of the long side to the short side among the
// rectangles of a row. `least`, `most` and `sum` are the smallest, the largest
// and the total area of the rectangles. `side` is the length of the row.
double Worst(double least, double most, double sum, double side) {
  const double square = side * side, total = sum * sum;
  return std::max(square * most / total, total / (square * least));
}

class Layout {
 public:
  Layout(std::span<const int64_t> weights, const Box& all) : left_(all) {
    double sum = 0;
    for (int64_t weight : weights) sum += static_cast<double>(weight);
    const double scale = sum > 0 ? all.width * all.height / sum : 0;
    for (int64_t weight : weights) {
      areas_.push_back(static_cast<double>(weight) * scale);
    }
  }

  std::vector<Box> Place() {
    size_t at = 0;
    while (at < areas_.size() && areas_[at] > 0) {
      const size_t end = EndOfRow(at);
      Row(at, end);
      at = end;
    }
    boxes_.resize(areas_.size());
    return std::move(boxes_);
  }

 private:
  size_t EndOfRow(size_t begin) const {
    const double side = std::min(left_.width, left_.height);
    if (side <= 0) return areas_.size();
    double sum = areas_[begin];
    double worst = Worst(sum, sum, sum, side);
    size_t end = begin + 1;
    for (; end < areas_.size() && areas_[end] > 0; ++end) {
      const double more = sum + areas_[end];
      const double next = Worst(areas_[end], areas_[begin], more, side);
      if (next > worst) break;
      sum = more;
      worst = next;
    }
    return end;
  }

  void Row(size_t begin, size_t end) {
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += areas_[i];
    const bool upright = left_.height <= left_.width;
    const double side = upright ? left_.height : left_.width;
    const double deep = side > 0 ? sum / side : 0;
    double along = upright ? left_.y : left_.x;
    for (size_t i = begin; i < end; ++i) {
      const double length = deep > 0 ? areas_[i] / deep : 0;
      boxes_.push_back(upright ? Box{left_.x, along, deep, length}
                               : Box{along, left_.y, length, deep});
      along += length;
    }
    if (upright) {
      left_.x += deep;
      left_.width = std::max(0.0, left_.width - deep);
    } else {
      left_.y += deep;
      left_.height = std::max(0.0, left_.height - deep);
    }
  }

  Box left_;
  std::vector<double> areas_;
  std::vector<Box> boxes_;
};

}  // namespace

std::vector<Box> Squarify(std::span<const int64_t> weights, const Box& all) {
  return Layout(weights, all).Place();
}

}  // namespace shardc::picture
