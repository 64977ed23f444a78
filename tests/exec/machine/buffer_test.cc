#include "exec/machine/buffer.h"

#include <doctest/doctest.h>

#include "exec/machine/mesh_fixture.h"
#include "source/size.h"

namespace shardc::exec {
namespace {

TEST_CASE("bytes are the dtype's, not the program's") {
  CHECK(Buffer::Zeros({3, 5}, Dtype::kBF16).Bytes() == 30);
  CHECK(Buffer::Zeros({3, 5}, Dtype::kF32).Bytes() == 60);
  CHECK(Buffer::Zeros({3, 5}, Dtype::kI8).Bytes() == 15);
  CHECK(Buffer::Zeros({3, 5}, Dtype::kI8).integers.size() == 15);
  CHECK(Buffer::Zeros({}, Dtype::kF32).Elements() == 1);
}

TEST_CASE("a hollow buffer whose elements do not fit 64 bits stays hollow") {
  const int64_t large = int64_t{1} << 53;
  const Buffer hollow =
      Buffer::Hollow({1 << 10, 1 << 12, large, 128}, Dtype::kBF16);
  CHECK(hollow.IsHollow());
  CHECK(hollow.Elements() == INT64_MAX);
  CHECK(hollow.Bytes() == INT64_MAX);
}

TEST_CASE("offsets and positions are inverse") {
  const Shape shape = {3, 4, 5};
  for (int64_t i = 0; i < 60; ++i) {
    CHECK(OffsetOf(shape, PositionOf(shape, i)) == i);
  }
  CHECK(OffsetOf(shape, {2, 1, 3}) == 48);
}

TEST_CASE("blocks that fill trailing dimensions of one array or of both") {
  const Shape shape = {3, 4, 2, 3};
  const Buffer from = Counting(shape);
  int blocks = 0;
  for (const Shape& extent : std::vector<Shape>{{2, 4, 2, 3},
                                                {3, 2, 2, 3},
                                                {1, 4, 1, 3},
                                                {3, 4, 2, 2},
                                                {2, 1, 2, 3},
                                                {3, 4, 2, 3},
                                                {0, 4, 2, 3}}) {
    Shape start(4, 0);
    for (size_t d = 0; d < 4; ++d) start[d] = shape[d] - extent[d];
    // Copy into an array of the block's size, and into one that is larger by
    // one.
    for (const int64_t more : {0, 1}) {
      Shape larger = extent;
      for (int64_t& size : larger) size += more;
      Buffer to = Buffer::Zeros(larger, Dtype::kF32);
      CopyBlock(from, start, to, Shape(4, more), extent);
      for (int64_t i = 0; i < ElementsOf(extent); ++i) {
        Shape source = PositionOf(extent, i), target = source;
        for (size_t d = 0; d < 4; ++d) {
          source[d] += start[d];
          target[d] += more;
        }
        CHECK(to.real[AsIndex(OffsetOf(larger, target))] ==
              from.real[AsIndex(OffsetOf(shape, source))]);
        ++blocks;
      }
    }
  }
  CHECK(blocks > 100);
}

TEST_CASE("slices, joins and transposes keep every element") {
  const Buffer all = Counting({2, 6, 3});
  const Buffer a = SliceDim(all, 1, 0, 2);
  const Buffer b = SliceDim(all, 1, 2, 4);
  CHECK(a.real == std::vector<float>{0, 1, 2, 3, 4, 5, 18, 19, 20, 21, 22, 23});
  CHECK(BitEqual(ConcatDim({&a, &b}, 1), all));
  const Buffer transposed = TransposeDims(all, {2, 0, 1});
  CHECK(transposed.shape == Shape{3, 2, 6});
  CHECK(transposed
            .real[static_cast<size_t>(OffsetOf(transposed.shape, {1, 1, 4}))] ==
        all.real[static_cast<size_t>(OffsetOf(all.shape, {1, 4, 1}))]);
  CHECK(BitEqual(TransposeDims(transposed, {1, 2, 0}), all));
  CHECK(SliceBlock(Counting({4}), {1}, {0}).real.empty());
}

TEST_CASE("positive and negative zeros differ in bits") {
  Buffer a = Counting({2});
  Buffer b = a;
  CHECK(BitEqual(a, b));
  b.real[0] = -0.0f;
  CHECK_FALSE(BitEqual(a, b));
  CHECK(FirstDifference(a, b) == 0);
  b = a;
  b.dtype = Dtype::kBF16;
  CHECK_FALSE(BitEqual(a, b));
}

}  // namespace
}  // namespace shardc::exec
