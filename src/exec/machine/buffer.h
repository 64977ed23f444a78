// The elements of one tensor in row-major order, on a device or on the host.
#ifndef SHARDC_EXEC_MACHINE_BUFFER_H_
#define SHARDC_EXEC_MACHINE_BUFFER_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"

namespace shardc::exec {

// The logit of a masked key. With MaskedRows::kMean, masked keys have
// kMaskValue instead.
inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Elements of F32, BF16 and F16 are stored in `real`, which represents all
// three exactly. Elements of F64 are stored in `wide`, and elements of I32, I8
// and BOOL in `integers`. `dtype` determines which values an element may have,
// and how many bytes it has in memory and on the network.
struct Buffer {
  Shape shape;
  Dtype dtype = Dtype::kF32;
  std::vector<float> real;
  std::vector<int32_t> integers;
  std::vector<double> wide = {};

  static Buffer Zeros(Shape shape, Dtype dtype);
  // Returns a buffer with a shape and no elements. A run with such buffers
  // finds out, without computing values, whether an operation supports the
  // shapes and specs.
  static Buffer Hollow(Shape shape, Dtype dtype);
  bool IsHollow() const;

  bool IsReal() const;  // true if `real` holds the elements
  bool IsWide() const { return dtype == Dtype::kF64; }
  int64_t Elements() const;
  int64_t Bytes() const;  // elements times the width of `dtype`
  int64_t Dim(size_t dim) const { return shape[dim]; }
};

bool IsRealDtype(Dtype dtype);
// Returns the product of the sizes, or INT64_MAX if it overflows.
int64_t ElementsOf(const Shape& shape);
// Convert an element's indices to its row-major offset, and an offset to
// indices.
int64_t OffsetOf(const Shape& shape, const Shape& position);
Shape PositionOf(const Shape& shape, int64_t offset);

// Copies a block with `extent` elements in each dimension between two arrays of
// the same rank. Both must store their elements in the same member (`real`,
// `wide` or `integers`). Both blocks must be inside their arrays.
void CopyBlock(const Buffer& from, const Shape& from_start, Buffer& to,
               const Shape& to_start, const Shape& extent);
// Returns a copy of the block of `extent` elements that begins at `start`.
Buffer SliceBlock(const Buffer& from, const Shape& start, const Shape& extent);
// Returns a copy of `from` restricted to [begin, begin + length) of `dim`.
Buffer SliceDim(const Buffer& from, size_t dim, int64_t begin, int64_t length);
// Concatenates `parts` along `dim`. The other dimensions must have equal sizes.
// `parts` must not be empty.
Buffer ConcatDim(const std::vector<const Buffer*>& parts, size_t dim);
// Returns the transpose whose dimension i is dimension `order[i]` of `from`.
Buffer TransposeDims(const Buffer& from, const std::vector<size_t>& order);

// Rounds the elements of a BF16 or F16 buffer to values of its dtype. Other
// buffers are unchanged.
void RoundTo(Buffer& buffer);

// Returns true if shape, dtype and the bits of all elements are equal: 0 and -0
// differ, and NaNs are equal only if their payloads are equal.
bool BitEqual(const Buffer& a, const Buffer& b);
// Returns the row-major offset of the first element whose bits differ, or -1 if
// all bits are equal. The shapes must be equal.
int64_t FirstDifference(const Buffer& a, const Buffer& b);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_BUFFER_H_
