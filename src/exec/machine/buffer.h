// One tensor's elements in row-major order, as a device or the host holds it.
#ifndef SHARDC_EXEC_MACHINE_BUFFER_H_
#define SHARDC_EXEC_MACHINE_BUFFER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"

namespace shardc::exec {

// Real dtypes (F32, BF16, F16) keep each element's value in `real`, where all
// three are exact, F64 in `wide`; whole ones (I32, I8, BOOL) in `whole`.
// `dtype` says how wide an element is in memory and on the wire, and which
// values may occur.
struct Buffer {
  Shape shape;
  Dtype dtype = Dtype::kF32;
  std::vector<float> real;
  std::vector<int32_t> whole;
  std::vector<double> wide = {};

  static Buffer Zeros(Shape shape, Dtype dtype);
  // A shape without elements, for what asks whether a program can be formed:
  // it is cut and moved like any other, and no element is there to be read.
  static Buffer Hollow(Shape shape, Dtype dtype);
  bool IsHollow() const;

  bool IsReal() const;  // held in `real`
  bool IsWide() const { return dtype == Dtype::kF64; }
  int64_t Elements() const;
  int64_t Bytes() const;  // in `dtype`'s width, not this program's
  // Size of dimension `dim`.
  int64_t Dim(size_t dim) const { return shape[dim]; }
};

bool IsRealDtype(Dtype dtype);
// Elements of a shape; shapes here have passed the readers' bounds.
int64_t ElementsOf(const Shape& shape);
// Row-major offset of a position, and its inverse.
int64_t OffsetOf(const Shape& shape, const Shape& position);
Shape PositionOf(const Shape& shape, int64_t offset);

// Copies a block of `extent` elements a dimension between two arrays of the
// same rank and dtype kind. Both blocks must lie inside their arrays.
void CopyBlock(const Buffer& from, const Shape& from_start, Buffer& to,
               const Shape& to_start, const Shape& extent);
// The block as an array of its own.
Buffer SliceBlock(const Buffer& from, const Shape& start, const Shape& extent);
// `from` restricted to [begin, begin + length) of `dim`.
Buffer SliceDim(const Buffer& from, size_t dim, int64_t begin, int64_t length);
// Parts of equal shape one after the other along `dim`.
Buffer ConcatDim(const std::vector<const Buffer*>& parts, size_t dim);
// Dimension i of the result is dimension `order[i]` of `from`.
Buffer TransposeDims(const Buffer& from, const std::vector<size_t>& order);

// What a narrow dtype holds of each element; others stay.
void RoundTo(Buffer& buffer);

// Equal shape, dtype and bits: -0 differs from 0, NaNs compare by payload.
bool BitEqual(const Buffer& a, const Buffer& b);
// Row-major offset of the first element whose bits differ, or -1. The shapes
// are equal.
int64_t FirstDifference(const Buffer& a, const Buffer& b);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_BUFFER_H_
