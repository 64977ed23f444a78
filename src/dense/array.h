// Directory: dense. The reference implementations with which faster or sharded
// implementations are compared: plain loops over unsharded tensors. They cover
// attention (with its rotary embedding, masks, dropout and the rounding of
// cached keys and values) and the training step of a model.
// Its files include headers of these directories: source, model.
//
// This header declares an unsharded array in float64.
#ifndef SHARDC_DENSE_ARRAY_H_
#define SHARDC_DENSE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "model/axis_rules.h"
#include "source/size.h"

namespace shardc::dense {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kUnit = 0x1p-24;  // the unit roundoff of float32

struct Array {
  std::vector<int64_t> shape;
  std::vector<double> data;  // in row-major order

  static Array Zeros(std::vector<int64_t> shape);

  int64_t dim(size_t i) const { return shape[i]; }
  size_t rank() const { return shape.size(); }
  bool empty() const { return data.empty(); }

  // Returns an element of an array of rank 4.
  double& At(int64_t a, int64_t b, int64_t c, int64_t d) {
    return data[Offset(a, b, c, d)];
  }
  double At(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return data[Offset(a, b, c, d)];
  }
  // Returns a pointer to the elements of the last dimension at the indices a, b
  // and c. The array must have rank 4.
  const double* Row(int64_t a, int64_t b, int64_t c) const {
    return data.data() + Offset(a, b, c, 0);
  }

 private:
  size_t Offset(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return AsIndex(((a * shape[1] + b) * shape[2] + c) * shape[3] + d);
  }
};

// Returns the shape as text, such as "[2, 3]".
std::string ShapeText(const Array& x);

// Converts an array from `layout` to [B, T, N, D]. In the layout kThd, the
// packed tokens become one row: [1, all tokens, N, D].
Array ToBthd(Array x, Layout layout);

// The positions of packed tokens, which segment ids divide into sequences. The
// position of a key is its index among the keys of its segment. The last query
// of a segment has the position of the segment's last key. Tokens without a
// segment (a negative id) have position -1.
struct Packed {
  std::vector<int64_t> queries, keys;
};
Packed PackedPositions(std::span<const int64_t> query_segments,
                       std::span<const int64_t> key_segments);

}  // namespace shardc::dense

#endif  // SHARDC_DENSE_ARRAY_H_
