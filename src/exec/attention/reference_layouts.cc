// Layouts of the reference's tensors, and packed sequences as segments: each
// token has its sequence and its position among the sequence's keys.
//
//   cumulative 0 3 5 of 6 tokens  ->  segments 0 0 0 1 1 -1
//                                     positions 0 1 2 0 1 -1
#include <utility>

#include "exec/attention/reference.h"

namespace shardc::exec {
namespace {

DenseArray SwapMiddle(const DenseArray& x) {
  DenseArray out = DenseArray::Zeros({x.dim(0), x.dim(2), x.dim(1), x.dim(3)});
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

}  // namespace

DenseArray ToBthd(const DenseArray& x, Layout layout) {
  if (layout == Layout::kBhtd) return SwapMiddle(x);
  DenseArray out = x;
  if (layout == Layout::kThd) out.shape.insert(out.shape.begin(), 1);
  return out;
}

DenseArray FromBthd(const DenseArray& x, Layout layout) {
  if (layout == Layout::kBhtd) return SwapMiddle(x);
  DenseArray out = x;
  if (layout == Layout::kThd) out.shape.erase(out.shape.begin());
  return out;
}

Packed PackedKeys(std::span<const int64_t> cumulative, int64_t tokens) {
  return PackedQueries(cumulative, cumulative, tokens);
}

Packed PackedQueries(std::span<const int64_t> cumulative,
                     std::span<const int64_t> key_cumulative, int64_t tokens) {
  Packed out{std::vector<int64_t>(tokens, -1),
             std::vector<int64_t>(tokens, -1)};
  for (size_t r = 0; r + 1 < cumulative.size(); ++r) {
    const int64_t count = cumulative[r + 1] - cumulative[r];
    const int64_t key_count = key_cumulative[r + 1] - key_cumulative[r];
    for (int64_t i = 0; i < count; ++i) {
      out.segments[cumulative[r] + i] = static_cast<int64_t>(r);
      out.positions[cumulative[r] + i] = key_count - count + i;
    }
  }
  return out;
}

}  // namespace shardc::exec
