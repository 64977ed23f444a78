#include "verify/traces/remembered.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "dense/attention.h"
#include "dense/narrow.h"
#include "verify/cases/grid.h"

namespace shardc::verify {
namespace {

constexpr int64_t kTokens = 24, kHeads = 2, kDim = 8;

CacheTrace TraceOf(Dtype kv_dtype) {
  CacheTrace trace;
  trace.mesh = MeshOf({{"x", 1}});
  trace.batch = 1;
  trace.key_heads = kHeads;
  trace.head_dim = kDim;
  trace.prefill = kTokens;
  trace.steps = 0;
  trace.slots = kTokens;
  trace.kv_dtype = kv_dtype;
  return trace;
}

// The expected content of one row, and a cache that holds this row.
struct Kept {
  explicit Kept(Dtype kv_dtype)
      : trace(TraceOf(kv_dtype)),
        mesh(trace.mesh),
        memory(trace),
        rotary(kDim, kTokens, {}, dense::Pairs::kHalves) {
    memory.Write(0, 0, kTokens);
    exec::LayoutError why;
    cache = *exec::MakeCache(mesh, {1, kTokens, kHeads, kDim, kv_dtype, 0}, {},
                             why);
    exec::Buffer value;
    exec::Buffer key;
    memory.ReadBack(0, 0, kTokens, key, value);
    if (kv_dtype != Dtype::kI8) {
      cache.key.local[0].real = key.real;
      return;
    }
    for (int64_t head = 0; head < kTokens * kHeads; ++head) {
      std::vector<float> x = RotatedHead(head);
      std::vector<int8_t> whole(kDim);
      cache.key_scale.local[0].real[size_t(head)] = dense::ToInt8(x, whole);
      for (int64_t d = 0; d < kDim; ++d) {
        At(head, d) = whole[size_t(d)];
      }
    }
  }

  // Returns head number `head`, counted over all tokens, before its rotation.
  std::vector<float> Raw(int64_t head) const {
    std::vector<float> token(kHeads * kDim);
    TraceTokens(trace).Read(TokenKind::kKey, 0, head / kHeads, token);
    const auto begin = token.begin() + head % kHeads * kDim;
    return {begin, begin + kDim};
  }
  std::vector<float> RotatedHead(int64_t head) const {
    std::vector<float> out = Raw(head);
    rotary.Rotate(head / kHeads, out);
    return out;
  }
  dense::Rotary::RotatedValue Bounds(int64_t head, int64_t d) const {
    return rotary.RotatedElement(head / kHeads, Raw(head), d);
  }

  float& Real(int64_t head, int64_t d) {
    return cache.key.local[0].real[size_t(head * kDim + d)];
  }
  int32_t& At(int64_t head, int64_t d) {
    return cache.key.local[0].integers[size_t(head * kDim + d)];
  }
  float& Scale(int64_t head) {
    return cache.key_scale.local[0].real[size_t(head)];
  }
  bool Holds() const { return !memory.KeyDifference(mesh, cache); }
  // Returns whether the cache still counts as correct if `place` has the value
  // `number`.
  bool HoldsWith(float& place, float number) {
    const float right = std::exchange(place, number);
    const bool holds = Holds();
    place = right;
    return holds;
  }

  CacheTrace trace;
  exec::SimMesh mesh;
  Remembered memory;
  dense::Rotary rotary;
  exec::KvCache cache;
};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_CASE("a key may differ by float32's rounding, and by no more") {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16, Dtype::kF16}) {
    CAPTURE(DtypeName(dtype));
    Kept kept(dtype);
    REQUIRE(kept.Holds());
    for (const int64_t head : {int64_t{3}, int64_t{10}}) {
      for (int64_t d = 0; d < kDim; ++d) {
        const auto turned = kept.Bounds(head, d);
        const auto end = [&](double x) {
          return static_cast<float>(
              dense::Nearest(dtype, dense::Nearest(Dtype::kF32, x)));
        };
        const float low = end(turned.at - turned.off);
        const float high = end(turned.at + turned.off);
        float& key = kept.Real(head, d);
        CHECK(kept.HoldsWith(key, low));
        CHECK(kept.HoldsWith(key, high));
        CHECK_FALSE(kept.HoldsWith(key, std::nextafter(low, -kInfinity)));
        CHECK_FALSE(kept.HoldsWith(key, std::nextafter(high, kInfinity)));
        CHECK_FALSE(kept.HoldsWith(key, std::nanf("")));
      }
    }
  }
}

TEST_CASE(
    "a scale may differ by the rounding of the largest key, and by no more") {
  Kept kept(Dtype::kI8);
  REQUIRE(kept.Holds());
  std::set<int64_t> largest;  // in which element
  for (int64_t head = 0; head < kTokens * kHeads; ++head) {
    const std::vector<float> rotated_head = kept.RotatedHead(head);
    if (kept.Scale(head) == 0) continue;
    largest.insert(std::max_element(rotated_head.begin(), rotated_head.end(),
                                    [](float a, float b) {
                                      return std::abs(a) < std::abs(b);
                                    }) -
                   rotated_head.begin());
    double least = 0, most = 0;
    for (int64_t d = 0; d < kDim; ++d) {
      const auto turned = kept.Bounds(head, d);
      const auto size = [](double x) {
        return std::abs(dense::Nearest(Dtype::kF32, x));
      };
      const double low = size(turned.at - turned.off);
      const double high = size(turned.at + turned.off);
      least = std::max(least, std::min(low, high));
      most = std::max({most, low, high});
    }
    const auto from = static_cast<float>(least), to = static_cast<float>(most);
    REQUIRE(from < to);
    float& scale = kept.Scale(head);
    CHECK(kept.HoldsWith(scale, from));
    CHECK(kept.HoldsWith(scale, to));
    CHECK_FALSE(kept.HoldsWith(scale, std::nextafter(from, 0.0f)));
    CHECK_FALSE(kept.HoldsWith(scale, std::nextafter(to, kInfinity)));
  }
  CHECK(largest.size() == kDim);
}

TEST_CASE("a row of zeros may hold only zeros") {
  Kept kept(Dtype::kI8);
  const int64_t head = 3 * kHeads;  // of the token that is zeros
  REQUIRE(kept.Raw(head) == std::vector<float>(kDim, 0));
  REQUIRE(kept.Scale(head) == 0);
  kept.At(head, 1) = 5;
  CHECK_FALSE(kept.Holds());
}

}  // namespace
}  // namespace shardc::verify
