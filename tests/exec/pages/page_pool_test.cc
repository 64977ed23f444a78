#include "exec/pages/page_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/machine/mesh_fixture.h"
#include "floats/convert.h"

namespace shardc::exec {
namespace {

size_t U(int64_t i) { return static_cast<size_t>(i); }

// Returns a number that differs for each token, head, side (key or value) and
// element, and is exact in bfloat16.
float Value(int64_t token, int64_t head, bool values, int64_t d) {
  return static_cast<float>(token * 8 + head) + (values ? 0.5f : 0.0f) +
         static_cast<float>(d) * 256.0f;
}

ShardedTensor Tokens(const SimMesh& mesh, const PoolConfig& c, int64_t count,
                     bool values) {
  Buffer out = Buffer::Zeros({count, c.key_heads, c.head_dim}, Dtype::kF32);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t h = 0; h < c.key_heads; ++h) {
      for (int64_t d = 0; d < c.head_dim; ++d) {
        out.real[U((i * c.key_heads + h) * c.head_dim + d)] =
            Value(i, h, values, d);
      }
    }
  }
  return Scatter(mesh, out, {{}, c.head_axes});
}

TEST_CASE("pools have the shapes of their formats") {
  const SimMesh mesh = SimMeshOf({{"tp", 2}});
  struct Case {
    PageFormat format;
    int64_t heads, dim;
    Dtype dtype;
    Shape want;
  };
  const Case cases[] = {
      {PageFormat::kInterleaved, 2, 8, Dtype::kF32, {4, 2, 4, 8}},
      {PageFormat::kSeparate, 2, 8, Dtype::kF32, {4, 2, 2, 8}},
      {PageFormat::kPacked, 2, 8, Dtype::kF32, {4, 2, 4, 1, 128}},
      {PageFormat::kPacked, 3, 200, Dtype::kBF16, {4, 2, 3, 2, 256}},
      {PageFormat::kPacked, 3, 64, Dtype::kBF16, {4, 2, 2, 2, 128}},
      {PageFormat::kPacked, 6, 8, Dtype::kI8, {4, 2, 3, 4, 128}},
      {PageFormat::kPacked, 5, 64, Dtype::kI8, {4, 2, 2, 4, 128}},
  };
  for (const Case& c : cases) {
    LayoutError why;
    const auto pool = MakePool(
        mesh, {c.format, 4, 2, c.heads, c.dim, c.dtype, {}, {}}, 0, why);
    REQUIRE_MESSAGE(pool, why.message);
    CHECK(pool->first.shape == c.want);
  }
}

TEST_CASE("int8 pages have an error of half a step, and zeros stay zeros") {
  const SimMesh mesh = SimMeshOf({{"tp", 2}});
  for (PageFormat format :
       {PageFormat::kInterleaved, PageFormat::kSeparate, PageFormat::kPacked}) {
    for (const int64_t dim : {16, 64}) {
      LayoutError why;
      auto pool = MakePool(mesh, {format, 4, 2, 8, dim, Dtype::kI8, {}, {"tp"}},
                           1e4f, why);
      REQUIRE_MESSAGE(pool, why.message);
      CHECK(pool->key_scale.shape == Shape{4, 2, 8});
      std::vector<float> key(U(dim)), value(U(dim)), zeros(U(dim), 0.0f);
      for (int64_t d = 0; d < dim; ++d) {
        key[U(d)] = static_cast<float>(d - 7) * 0.31f;
        value[U(d)] = static_cast<float>(5 - d) * 1.7f;
      }
      WriteToken(*pool, 1, 2, 1, 3, key, value);
      WriteToken(*pool, 1, 2, 0, 3, zeros, value);
      std::vector<float> out(U(dim));
      for (const bool values : {false, true}) {
        const std::vector<float>& want = values ? value : key;
        float scale = 0;
        for (float x : want) scale = std::max(scale, std::fabs(x));
        ReadToken(*pool, 1, 2, 1, 3, values, out);
        for (int64_t d = 0; d < dim; ++d) {
          CHECK(std::fabs(out[U(d)] - want[U(d)]) <= scale / 254);
        }
      }
      ReadToken(*pool, 1, 2, 0, 3, false, out);
      CHECK(out == zeros);
      // Elements that have not been written still have their large initial
      // number.
      ReadToken(*pool, 0, 2, 1, 3, false, out);
      CHECK(out[0] > 9e3f);
      std::vector<PageCopy> copies = {{2, 1}};
      Machine machine(mesh);
      CopyPages(machine, *pool, copies);
      std::vector<float> copied(U(dim));
      ReadToken(*pool, 1, 2, 1, 3, true, out);
      ReadToken(*pool, 1, 1, 1, 3, true, copied);
      CHECK(copied == out);
    }
  }
}

TEST_CASE("tokens are read from the slots that they were written to") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"tp", 2}});
  for (PageFormat format :
       {PageFormat::kInterleaved, PageFormat::kSeparate, PageFormat::kPacked}) {
    for (Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
      for (int64_t dim : {3, 64}) {
        for (int64_t heads : {4, 2}) {
          PoolConfig c{format, 8, 2, heads, dim, dtype, {"dp"}, {"tp"}};
          if (heads == 2 && dim == 64 && dtype == Dtype::kBF16) {
            c.head_axes = {};  // two heads share a word
          }
          LayoutError why;
          auto pool = MakePool(mesh, c, 1e4f, why);
          REQUIRE_MESSAGE(pool, why.message);
          Machine machine(mesh);
          const PageSlot slots[] = {{1, 0}, {1, 1}, {6, 1}};
          WriteTokens(machine, *pool, slots, Tokens(mesh, c, 3, false),
                      Tokens(mesh, c, 3, true));
          const PageCopy copy[] = {{6, 7}};
          CopyPages(machine, *pool, copy);
          int64_t seen = 0;
          for (int device = 0; device < 4; ++device) {
            const int64_t rank = mesh.Index(device, {"dp"});
            const int64_t parts = mesh.Parts(c.head_axes);
            const int64_t first =
                mesh.Index(device, c.head_axes) * (heads / parts);
            for (int64_t h = 0; h < heads / parts; ++h) {
              for (bool values : {false, true}) {
                std::vector<float> got(U(dim));
                const auto expect = [&](int64_t page, int64_t offset,
                                        int64_t token) {
                  ReadToken(*pool, device, page, offset, h, values, got);
                  for (int64_t d = 0; d < dim; ++d) {
                    const float want =
                        token < 0 ? 1e4f : Value(token, first + h, values, d);
                    CHECK(got[U(d)] == RoundTo(dtype, want));
                  }
                  ++seen;
                };
                if (rank == 0) {
                  expect(1, 0, 0);
                  expect(1, 1, 1);
                  expect(2, 1, -1);
                } else {
                  expect(2, 1, 2);
                  expect(3, 1, 2);  // the copy
                  expect(2, 0, -1);
                }
              }
            }
          }
          CHECK(seen > 0);
        }
      }
    }
  }
}

TEST_CASE("heads stay on the devices of their values and queries") {
  const SimMesh mesh = SimMeshOf({{"tp", 4}});
  struct Case {
    PageFormat format;
    int64_t heads, dim;
    Dtype dtype;
    const char* why;  // empty: legal
  };
  const Case cases[] = {
      {PageFormat::kInterleaved, 4, 8, Dtype::kF32, ""},
      // 4 devices divide the 2K = 4 interleaved heads, but each device would
      // have either a key or a value, not both.
      {PageFormat::kInterleaved, 2, 8, Dtype::kF32,
       "2 key heads do not divide into 4 parts: a device would hold keys "
       "without their values"},
      {PageFormat::kSeparate, 6, 8, Dtype::kF32,
       "6 key heads do not divide into 4 parts: a device would hold keys "
       "without their values"},
      {PageFormat::kPacked, 4, 128, Dtype::kBF16, ""},
      {PageFormat::kPacked, 4, 64, Dtype::kBF16,
       "4 key heads in 2 words of 2 do not divide into 4 parts: page slices "
       "would drift off query slices"},
      {PageFormat::kPacked, 8, 64, Dtype::kBF16, ""},
      {PageFormat::kPacked, 4, 64, Dtype::kF32, ""},
  };
  for (const Case& c : cases) {
    LayoutError why;
    const auto pool = MakePool(
        mesh, {c.format, 4, 2, c.heads, c.dim, c.dtype, {}, {"tp"}}, 0, why);
    CHECK(pool.has_value() == std::string(c.why).empty());
    CHECK(why.message == c.why);
    if (!pool) {
      CHECK(why.axis == "tp");
      CHECK(why.help == "replicate the pages' heads over \"tp\"");
    }
  }
}

// Pages must be sharded if and only if each device's heads begin where its
// words begin. Checked for all numbers of heads that the devices divide.
TEST_CASE("packed pages are sharded exactly where slices keep their heads") {
  int64_t legal = 0, refused = 0;
  for (const int64_t parts : {2, 3, 4, 8}) {
    const SimMesh mesh = SimMeshOf({{"tp", static_cast<int>(parts)}});
    for (int64_t heads = parts; heads <= 24; heads += parts) {
      for (const int64_t dim : {32, 64, 128}) {
        for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kI8}) {
          CAPTURE(parts);
          CAPTURE(heads);
          CAPTURE(dim);
          const int64_t p = dtype == Dtype::kF32    ? 1
                            : dtype == Dtype::kBF16 ? 2
                                                    : 4;
          const int64_t rows = dim == 64 ? heads : 2 * heads;
          const int64_t words = (rows + p - 1) / p;
          // The first row of each device, counted by its heads and by its
          // words.
          bool alike = words % parts == 0;
          for (int64_t d = 0; alike && d <= parts; ++d) {
            const int64_t from_heads = d * (rows / parts);
            const int64_t from_words = d * (words / parts) * p;
            alike = from_heads == from_words;
          }
          LayoutError why;
          const auto pool = MakePool(
              mesh, {PageFormat::kPacked, 4, 2, heads, dim, dtype, {}, {"tp"}},
              0, why);
          CHECK(pool.has_value() == alike);
          (alike ? legal : refused) += 1;
        }
      }
    }
  }
  CHECK(legal > 50);
  CHECK(refused > 20);
}

TEST_CASE("an illegal layout of pages is refused") {
  const SimMesh mesh = SimMeshOf({{"dp", 2}, {"tp", 2}});
  for (const PageFormat format :
       {PageFormat::kInterleaved, PageFormat::kSeparate, PageFormat::kPacked}) {
    LayoutError why;
    CHECK_FALSE(MakePool(
        mesh, {format, 5, 2, 4, 8, Dtype::kF32, {"dp"}, {"tp"}}, 0, why));
    CHECK(why.message.starts_with("the pages: dimension 0 of [5, 2, "));
    CHECK(why.axis == "dp");
    CHECK_FALSE(MakePool(
        mesh, {format, 4, 2, 4, 8, Dtype::kF32, {"dp"}, {"dp"}}, 0, why));
    CHECK(why.message.starts_with("the pages: "));
    CHECK(MakePool(mesh, {format, 4, 2, 4, 8, Dtype::kF32, {"dp"}, {"tp"}}, 0,
                   why));
  }
}

}  // namespace
}  // namespace shardc::exec
