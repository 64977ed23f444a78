#include "dense/array.h"

#include <map>
#include <utility>

#include "source/size.h"

namespace shardc::dense {

Array Array::Zeros(std::vector<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return {std::move(shape), std::vector<double>(AsIndex(count), 0.0)};
}

std::string ShapeText(const Array& x) {
  std::string text = "[";
  for (size_t i = 0; i < x.shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(x.shape[i]);
  }
  return text + "]";
}

namespace {

Array SwapMiddle(const Array& x) {
  Array out = Array::Zeros({x.dim(0), x.dim(2), x.dim(1), x.dim(3)});
  for (int64_t a = 0; a < x.dim(0); ++a) {
    for (int64_t b = 0; b < x.dim(1); ++b) {
      for (int64_t c = 0; c < x.dim(2); ++c) {
        for (int64_t d = 0; d < x.dim(3); ++d) {
          out.At(a, c, b, d) = x.At(a, b, c, d);
        }
      }
    }
  }
  return out;
}

using Counts = std::map<int64_t, int64_t>;

Counts CountsOf(std::span<const int64_t> segments) {
  Counts out;
  for (int64_t id : segments) ++out[id];
  return out;
}

// Returns the position of each token within its segment, or -1 for a token with
// a negative id. The first token of a segment has the position `first[id]`, or
// 0 if `first` has no entry for the segment.
std::vector<int64_t> Numbered(std::span<const int64_t> segments, Counts first) {
  std::vector<int64_t> out;
  for (int64_t id : segments) out.push_back(id < 0 ? -1 : first[id]++);
  return out;
}

}  // namespace

Array ToBthd(Array x, Layout layout) {
  if (layout == Layout::kBhtd) return SwapMiddle(x);
  if (layout == Layout::kThd) x.shape.insert(x.shape.begin(), 1);
  return x;
}

Packed PackedPositions(std::span<const int64_t> query_segments,
                       std::span<const int64_t> key_segments) {
  Counts first = CountsOf(key_segments);
  for (const auto& [id, queries] : CountsOf(query_segments)) {
    first[id] -= queries;
  }
  return {Numbered(query_segments, first), Numbered(key_segments, {})};
}

}  // namespace shardc::dense
