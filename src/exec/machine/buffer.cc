// Implements the row-major arrays of a device. A block of an array is copied in
// runs of contiguous elements, which are as long as possible. A run always
// extends over the last dimension of the block. If the block has the full size
// of trailing dimensions in both arrays, a run extends over all of these
// dimensions and over the dimension before them. For example, two blocks of an
// array [4, 8]:
//
//   [1:3, 2:6]  ->  two runs of 4 elements, which begin at elements 10 and 18
//   [1:3, 0:8]  ->  one run of 16 elements, which begins at element 8
#include "exec/machine/buffer.h"

#include <bit>
#include <cassert>
#include <cstring>
#include <type_traits>

#include "floats/convert.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

template <class T>
void CopyRuns(const std::vector<T>& from, const Shape& from_shape,
              const Shape& from_start, std::vector<T>& to,
              const Shape& to_shape, const Shape& to_start,
              const Shape& extent) {
  const size_t rank = extent.size();
  if (rank == 0) {
    to[0] = from[0];
    return;
  }
  for (int64_t e : extent) {
    if (e == 0) return;
  }
  // The dimensions from index `outer` to the last are copied as one run.
  size_t outer = rank - 1;
  int64_t run = extent[outer];
  while (outer > 0 && extent[outer] == from_shape[outer] &&
         extent[outer] == to_shape[outer]) {
    --outer;
    run *= extent[outer];
  }
  Shape at(rank, 0);
  while (true) {
    int64_t source = 0, target = 0;
    for (size_t d = 0; d < rank; ++d) {
      source = source * from_shape[d] + from_start[d] + at[d];
      target = target * to_shape[d] + to_start[d] + at[d];
    }
    std::memcpy(to.data() + target, from.data() + source,
                AsIndex(run) * sizeof(T));
    size_t d = outer;
    while (true) {
      if (d == 0) return;
      --d;
      if (++at[d] < extent[d]) break;
      at[d] = 0;
    }
  }
}

template <class T>
int64_t FirstBits(const std::vector<T>& a, const std::vector<T>& b) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<Bits>(a[i]) != std::bit_cast<Bits>(b[i])) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

// Calls f with the vectors that hold the elements of a and b. Both buffers must
// store their elements in the same member (`real`, `wide` or `integers`).
template <class A, class B, class F>
auto WithElements(A& a, B& b, const F& f) {
  if (a.IsWide()) return f(a.wide, b.wide);
  return a.IsReal() ? f(a.real, b.real) : f(a.integers, b.integers);
}

}  // namespace

bool IsRealDtype(Dtype dtype) {
  return dtype == Dtype::kF32 || dtype == Dtype::kBF16 || dtype == Dtype::kF16;
}

int64_t ElementsOf(const Shape& shape) {
  Size out = 1;
  for (int64_t size : shape) out *= size;
  return out.value();
}

int64_t OffsetOf(const Shape& shape, const Shape& position) {
  int64_t out = 0;
  for (size_t d = 0; d < shape.size(); ++d) out = out * shape[d] + position[d];
  return out;
}

Shape PositionOf(const Shape& shape, int64_t offset) {
  Shape out(shape.size());
  for (size_t d = shape.size(); d > 0;) {
    --d;
    out[d] = offset % shape[d];
    offset /= shape[d];
  }
  return out;
}

Buffer Buffer::Zeros(Shape shape, Dtype dtype) {
  Buffer out;
  out.shape = std::move(shape);
  out.dtype = dtype;
  const auto count = AsIndex(ElementsOf(out.shape));
  if (out.IsWide()) {
    out.wide.assign(count, 0.0);
  } else if (IsRealDtype(dtype)) {
    out.real.assign(count, 0.0f);
  } else {
    out.integers.assign(count, 0);
  }
  return out;
}

Buffer Buffer::Hollow(Shape shape, Dtype dtype) {
  Buffer out;
  out.shape = std::move(shape);
  out.dtype = dtype;
  return out;
}

bool Buffer::IsHollow() const {
  return real.empty() && integers.empty() && wide.empty() && !shape.empty() &&
         Elements() > 0;
}

bool Buffer::IsReal() const { return IsRealDtype(dtype); }

int64_t Buffer::Elements() const { return ElementsOf(shape); }

int64_t Buffer::Bytes() const {
  return ((Size(Elements()) * DtypeBits(dtype) + 7) / 8).value();
}

void CopyBlock(const Buffer& from, const Shape& from_start, Buffer& to,
               const Shape& to_start, const Shape& extent) {
  assert(from.IsReal() == to.IsReal() && from.IsWide() == to.IsWide());
  WithElements(from, to, [&](const auto& source, auto& target) {
    CopyRuns(source, from.shape, from_start, target, to.shape, to_start,
             extent);
  });
}

Buffer SliceBlock(const Buffer& from, const Shape& start, const Shape& extent) {
  if (from.IsHollow()) return Buffer::Hollow(extent, from.dtype);
  Buffer out = Buffer::Zeros(extent, from.dtype);
  CopyBlock(from, start, out, Shape(extent.size(), 0), extent);
  return out;
}

Buffer SliceDim(const Buffer& from, size_t dim, int64_t begin, int64_t length) {
  Shape start(from.shape.size(), 0);
  Shape extent = from.shape;
  start[dim] = begin;
  extent[dim] = length;
  return SliceBlock(from, start, extent);
}

Buffer ConcatDim(const std::vector<const Buffer*>& parts, size_t dim) {
  Shape shape = parts.front()->shape;
  int64_t total = 0;
  for (const Buffer* part : parts) total += part->shape[dim];
  shape[dim] = total;
  Buffer out = Buffer::Zeros(shape, parts.front()->dtype);
  Shape start(shape.size(), 0);
  for (const Buffer* part : parts) {
    CopyBlock(*part, Shape(shape.size(), 0), out, start, part->shape);
    start[dim] += part->shape[dim];
  }
  return out;
}

Buffer TransposeDims(const Buffer& from, const std::vector<size_t>& order) {
  const size_t rank = order.size();
  Shape shape(rank);
  std::vector<int64_t> stride(rank, 1), source_stride(rank, 1);
  for (size_t d = rank; d > 1;) {
    --d;
    source_stride[d - 1] = source_stride[d] * from.shape[d];
  }
  for (size_t d = 0; d < rank; ++d) {
    shape[d] = from.shape[order[d]];
    stride[d] = source_stride[order[d]];
  }
  if (from.IsHollow()) return Buffer::Hollow(shape, from.dtype);
  Buffer out = Buffer::Zeros(shape, from.dtype);
  Shape at(rank, 0);
  const int64_t count = out.Elements();
  int64_t source = 0;
  for (int64_t i = 0; i < count; ++i) {
    WithElements(from, out, [&](const auto& source_of, auto& target_of) {
      target_of[AsIndex(i)] = source_of[AsIndex(source)];
    });
    for (size_t d = rank; d > 0;) {
      --d;
      source += stride[d];
      if (++at[d] < shape[d]) break;
      source -= stride[d] * shape[d];
      at[d] = 0;
    }
  }
  return out;
}

void RoundTo(Buffer& buffer) {
  if (buffer.dtype != Dtype::kBF16 && buffer.dtype != Dtype::kF16) return;
  for (float& x : buffer.real) x = RoundTo(buffer.dtype, x);
}

int64_t FirstDifference(const Buffer& a, const Buffer& b) {
  return WithElements(
      a, b, [](const auto& x, const auto& y) { return FirstBits(x, y); });
}

bool BitEqual(const Buffer& a, const Buffer& b) {
  return a.shape == b.shape && a.dtype == b.dtype && FirstDifference(a, b) < 0;
}

}  // namespace shardc::exec
