// Compares the attention kernels of every target (instruction set) with plain
// loops, and with each other where bits must be equal.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "exec/kernels/arithmetic.h"
#include "exec/kernels/kernel_cases.h"
#include "exec/kernels/kernel_loops.h"
#include "exec/kernels/kernels.h"
#include "floats/convert.h"
#include "source/process.h"

namespace shardc::exec {
namespace {

// Returns the names of all targets, and selects the fastest one again when the
// test ends.
class EachTarget {
 public:
  ~EachTarget() { UseKernelTarget(""); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_ = KernelTargets();
};

struct Result {
  std::vector<float> max, sum, raw, out, lse;
};

using Kernel = void (*)(const AttentionSlice&, const AttentionState&, Scratch&);

AttentionState StateOf(Result& r, const AttentionSlice& s) {
  const auto rows = static_cast<size_t>(s.heads * s.query_rows);
  r.max.resize(rows);
  r.sum.resize(rows);
  r.raw.resize(rows * static_cast<size_t>(s.value_dim));
  return {r.max.data(), r.sum.data(), r.raw.data()};
}

void Finish(Result& r, const AttentionSlice& s, const AttentionState& state) {
  r.out.resize(r.raw.size());
  r.lse.resize(r.max.size());
  FinishAttention(s, state, nullptr, r.out.data(), s.query_rows * s.value_dim,
                  s.value_dim, r.lse.data());
}

Result RunKernel(const AttentionSlice& s, Kernel kernel) {
  Result r;
  Scratch scratch;
  const AttentionState state = StateOf(r, s);
  ClearState(s, state);
  kernel(s, state, scratch);
  Finish(r, s, state);
  return r;
}

// Returns the largest error, beyond `allowed` of each if there is one.
double Worst(const std::vector<float>& a, const std::vector<double>& b,
             const std::vector<double>& allowed = {}) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    if (x == b[i]) continue;  // infinities
    const double e = std::abs(x - b[i]) - (allowed.empty() ? 0 : allowed[i]);
    if (!(e <= worst)) worst = e;  // NaN sticks
  }
  return worst;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void DecodeOne(const AttentionSlice& slice, const AttentionState& state,
               Scratch& scratch) {
  DecodeAttention({&slice, 1}, {&state, 1}, scratch);
}

constexpr Kernel kKernels[] = {PrefillAttention, DecodeOne};
constexpr Dtype kDtypes[] = {Dtype::kF32, Dtype::kBF16, Dtype::kF16,
                             Dtype::kI8};
constexpr SliceShape kShapes[] = {
    {1, 1, 1, 1, 1},      {1, 1, 300, 64, 64},  {2, 5, 7, 16, 16},
    {3, 9, 33, 20, 12},   {1, 40, 257, 80, 80}, {4, 17, 513, 32, 48},
    {2, 150, 300, 24, 8}, {8, 1, 70, 128, 128},
};

// Narrow operands are exact numbers, and sums are float32 for all dtypes, so
// all dtypes have the same tolerance.
constexpr double kTolerance = 4e-6;

// Returns whether the kernel rounds weights to bfloat16 (prefill_bf16_simd.cc).
bool RoundsWeights(const std::string& target, Dtype dtype, Kernel kernel) {
  return (target == "AMX" || target == "VDPBF16PS") && dtype == Dtype::kBF16 &&
         kernel == PrefillAttention;
}

void CheckWithin(const KernelCase& c, const std::string& target, Kernel kernel,
                 const LoopResult& expected) {
  const Result r = RunKernel(c.slice, kernel);
  std::vector<double> allowed;
  if (RoundsWeights(target, c.slice.kv_dtype, kernel)) {
    for (const double x : expected.magnitude) allowed.push_back(x / 256);
  }
  CHECK(Worst(r.out, expected.out, allowed) < kTolerance);
  CHECK(Worst(r.lse, expected.lse) < kTolerance);
}

TEST_CASE("every target agrees with the loops") {
  const EachTarget targets;
  REQUIRE(!targets.names().empty());
  for (const Dtype dtype : kDtypes) {
    for (const SliceShape& shape : kShapes) {
      for (const int64_t window : {int64_t{1} << 30, int64_t{3}}) {
        KernelCase c = MakeCase(shape, dtype, 7);
        SetWindow(c, window);
        const LoopResult expected = LoopAttention(c.slice);
        for (const std::string& target : targets.names()) {
          CAPTURE(target);
          CAPTURE(DtypeName(dtype));
          CAPTURE(shape.keys);
          REQUIRE(UseKernelTarget(target));
          for (const Kernel kernel : kKernels) {
            CheckWithin(c, target, kernel, expected);
          }
        }
      }
    }
  }
}

// Soft cap, bias and mask together.
KernelCase MakeAdjustedCase(Dtype dtype) {
  const SliceShape shape{3, 9, 301, 20, 12};
  KernelCase c = MakeCase(shape, dtype, 11);
  AttentionSlice& s = c.slice;
  s.scale = 5;  // far into the cap
  s.soft_cap = 8;
  std::mt19937 random(3);
  FillNormal(c.bias, s.heads * s.key_rows, random);
  s.bias = c.bias.data();
  s.bias_head_stride = s.key_rows;
  s.bias_row_stride = 0;  // the same for all rows
  for (int64_t i = 0; i < s.query_rows * s.key_rows; ++i) {
    // All keys of row 4 are masked.
    c.mask.push_back(i / s.key_rows != 4 && random() % 3 != 0);
  }
  s.mask = c.mask.data();
  s.mask_row_stride = s.key_rows;
  SetWindow(c, 290);
  return c;
}

TEST_CASE("soft cap, bias and mask agree with the loops") {
  const EachTarget targets;
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBF16}) {
    const KernelCase c = MakeAdjustedCase(dtype);
    const LoopResult expected = LoopAttention(c.slice);
    CHECK(std::count(expected.out.begin(), expected.out.end(), 0.0) ==
          c.slice.heads * c.slice.value_dim);
    for (const std::string& target : targets.names()) {
      CAPTURE(target);
      REQUIRE(UseKernelTarget(target));
      for (const Kernel kernel : kKernels) {
        CheckWithin(c, target, kernel, expected);
      }
    }
  }
}

TEST_CASE("large logits neither overflow nor lose the largest") {
  KernelCase c = MakeCase({2, 12, 300, 16, 16}, Dtype::kF32, 5);
  c.slice.scale = 300;
  const LoopResult expected = LoopAttention(c.slice);
  for (const Kernel kernel : kKernels) {
    const Result r = RunKernel(c.slice, kernel);
    // Logits near 10^3 have errors near 10^3 * 2^-24 * D.
    CHECK(Worst(r.out, expected.out) < 5e-3);
  }
}

TEST_CASE("a row whose keys all have the finite mask value gives their mean") {
  const EachTarget targets;
  for (const Dtype dtype : kDtypes) {
    KernelCase c = MakeCase({3, 14, 301, 20, 12}, dtype, 17);
    AttentionSlice& s = c.slice;
    // What JAX and Flax add for a masked key: 0.7 times the lowest number. The
    // keys of head 1 have it, and those of the other heads have no bias.
    c.bias.assign(static_cast<size_t>(s.heads * s.key_rows), 0);
    std::fill_n(c.bias.begin() + s.key_rows, s.key_rows,
                0.7F * std::numeric_limits<float>::lowest());
    s.bias = c.bias.data();
    s.bias_head_stride = s.key_rows;
    s.bias_row_stride = 0;
    const LoopResult expected = LoopAttention(s);
    for (const std::string& target : targets.names()) {
      CAPTURE(target);
      CAPTURE(DtypeName(dtype));
      REQUIRE(UseKernelTarget(target));
      for (const Kernel kernel : kKernels) {
        const Result r = RunKernel(s, kernel);
        std::vector<double> allowed;
        if (RoundsWeights(target, dtype, kernel)) {
          for (const double x : expected.magnitude) allowed.push_back(x / 256);
        }
        CHECK(Worst(r.out, expected.out, allowed) < kTolerance);
      }
    }
  }
}

// Two calls add slices of keys to one state. Compares the result with the plain
// loop over all keys and, if the cut is between blocks, with that of one call.
void CheckInTwoCalls(Dtype dtype, double tolerance) {
  const SliceShape shape{2, 20, 700, 32, 32};
  const KernelCase c = MakeCase(shape, dtype, 13);
  const LoopResult expected = LoopAttention(c.slice);
  const auto from = [&](const void* rows, int64_t elements) {
    const int64_t size = dtype == Dtype::kF32 ? 4 : 2;
    return static_cast<const char*>(rows) + elements * size;
  };
  for (const Kernel kernel : kKernels) {
    for (const int64_t cut : {0, 1, 256, 300, 700}) {
      CAPTURE(cut);
      AttentionSlice head = c.slice;
      head.key_rows = cut;
      AttentionSlice tail = c.slice;
      tail.key_rows -= cut;
      tail.key = from(tail.key, cut * c.slice.key_row_stride);
      tail.value = from(tail.value, cut * c.slice.value_row_stride);
      Scratch scratch;
      Result absorbed;
      const AttentionState state = StateOf(absorbed, c.slice);
      ClearState(c.slice, state);
      kernel(head, state, scratch);
      kernel(tail, state, scratch);
      Finish(absorbed, c.slice, state);
      CHECK(Worst(absorbed.out, expected.out) < tolerance);
      if (cut % kKeyBlock == 0 && kernel == PrefillAttention) {
        const Result whole = RunKernel(c.slice, kernel);
        CHECK(SameBits(absorbed.out, whole.out));
      }
    }
  }
}

TEST_CASE("keys in several calls give the result of one call") {
  CheckInTwoCalls(Dtype::kF32, kTolerance);
  CheckInTwoCalls(Dtype::kBF16, 5.0 / 256);  // 2^-8 max |v|
}

TEST_CASE("a sink is added to the denominator") {
  const SliceShape shape{2, 3, 10, 8, 8};
  KernelCase c = MakeCase(shape, Dtype::kF32, 17);
  SetWindow(c, 4);
  c.end[1] = c.begin[1];  // sees nothing: zeros
  const LoopResult plain = LoopAttention(c.slice);
  Result r = RunKernel(c.slice, PrefillAttention);
  const AttentionState state = StateOf(r, c.slice);
  const float sinks[] = {0.5f, 90.0f};
  FinishAttention(c.slice, state, sinks, r.out.data(), 3 * 8, 8, r.lse.data());
  for (size_t row = 0; row < 6; ++row) {
    const double sink = static_cast<double>(sinks[row / 3]);
    const double keep =
        1 / (1 + std::exp(sink - plain.lse[row]));  // of the other weights
    for (size_t d = 0; d < 8; ++d) {
      CHECK(static_cast<double>(r.out[row * 8 + d]) ==
            doctest::Approx(keep * plain.out[row * 8 + d]).epsilon(1e-5));
    }
    if (row % 3 == 1) CHECK(r.lse[row] == sinks[row / 3]);
  }
}

// Sharding the query's rows or heads must not change a row's bits.
TEST_CASE("a row's bits do not depend on other rows") {
  const EachTarget targets;
  const SliceShape shape{4, 37, 600, 24, 40};
  for (const std::string& target : targets.names()) {
    CAPTURE(target);
    REQUIRE(UseKernelTarget(target));
    for (const int64_t window : {int64_t{1} << 30, int64_t{50}}) {
      KernelCase c = MakeCase(shape, Dtype::kBF16, 19);
      SetWindow(c, window);
      for (const Kernel kernel : kKernels) {
        const Result whole = RunKernel(c.slice, kernel);
        for (const int64_t rows : {1, 5, 8, 36}) {
          for (const int64_t first : {int64_t{0}, shape.rows - rows}) {
            AttentionSlice part = c.slice;
            part.heads = 1;
            part.query_rows = rows;
            part.query = c.query16.data() + 2 * part.query_head_stride +
                         first * part.query_row_stride;
            part.begin += first;
            part.end += first;
            const Result r = RunKernel(part, kernel);
            const auto at = (2 * shape.rows + first) * shape.value_dim;
            const std::vector<float> same(
                whole.out.begin() + at,
                whole.out.begin() + at + rows * shape.value_dim);
            CHECK(SameBits(r.out, same));
          }
        }
      }
    }
  }
}

// A slice has the same bits alone and together with slices of other lengths.
TEST_CASE("a slice's bits do not depend on other slices") {
  const EachTarget targets;
  for (const std::string& target : targets.names()) {
    CAPTURE(target);
    REQUIRE(UseKernelTarget(target));
    std::vector<KernelCase> cases;
    for (const int64_t keys : {200, 0, 65, 1, 130}) {
      cases.push_back(MakeCase({keys % 2 + 1, 3, keys, 40, 24}, Dtype::kBF16,
                               static_cast<uint32_t>(keys)));
    }
    SetWindow(cases[4], 20);
    std::vector<AttentionSlice> slices;
    std::vector<AttentionState> states;
    std::vector<Result> results(cases.size());
    for (size_t i = 0; i < cases.size(); ++i) {
      slices.push_back(cases[i].slice);
      states.push_back(StateOf(results[i], slices[i]));
      ClearState(slices[i], states[i]);
    }
    Scratch scratch;
    DecodeAttention(slices, states, scratch);
    for (size_t i = 0; i < cases.size(); ++i) {
      Finish(results[i], slices[i], states[i]);
      const Result alone = RunKernel(slices[i], DecodeOne);
      CHECK(SameBits(results[i].out, alone.out));
      CHECK(SameBits(results[i].lse, alone.lse));
    }
  }
}

TEST_CASE("bits do not depend on the number of threads") {
  const EachTarget targets;
  const SliceShape shape{1, 30, 400, 32, 32};
  const KernelCase cases[] = {MakeCase(shape, Dtype::kF16, 23),
                              MakeCase(shape, Dtype::kBF16, 23)};
  for (const std::string& target : targets.names()) {
    CAPTURE(target);
    REQUIRE(UseKernelTarget(target));
    for (const Kernel kernel : kKernels) {
      for (const KernelCase& c : cases) {
        const Result alone = RunKernel(c.slice, kernel);
        for (const int threads : {1, 2, 3, 8}) {
          ThreadPool pool(threads);
          std::vector<Result> results(12);
          pool.Run(12, [&](int64_t task, int) {
            results[static_cast<size_t>(task)] = RunKernel(c.slice, kernel);
          });
          for (const Result& r : results) {
            CHECK(SameBits(r.out, alone.out));
            CHECK(SameBits(r.lse, alone.lse));
          }
        }
      }
    }
  }
}

// Heads that share keys, windows that end between tiles, scales of both signs,
// sizes that are not multiples of a tile, and NaN after the last key.
KernelCase MakeRandomCase(std::mt19937& random) {
  const auto below = [&](uint32_t n) {
    return static_cast<int64_t>(random() % n);
  };
  const SliceShape shape{1 + below(4), 1 + below(70), 2 + below(600),
                         1 + below(150), 1 + below(150)};
  KernelCase c = MakeCase(shape, Dtype::kBF16, static_cast<uint32_t>(random()));
  const auto keys = static_cast<size_t>(shape.keys);
  for (auto* const x : {&c.key16, &c.value16}) {
    std::fill_n(x->rbegin(), x->size() / keys, uint16_t{0x7fff});
  }
  --c.slice.key_rows;
  if (random() % 4 == 0) c.slice.scale = -c.slice.scale;
  if (random() % 4 != 0) SetWindow(c, 1 + below(400));
  return c;
}

constexpr const char* kBf16Targets[] = {"AMX", "VDPBF16PS"};

TEST_CASE("products of bfloat16 agree with the loops for random shapes") {
  const EachTarget targets;
  for (const std::string target : kBf16Targets) {
    CAPTURE(target);
    if (!UseKernelTarget(target)) {
      MESSAGE("skipped: this processor has no ", target);
      continue;
    }
    std::mt19937 random(31);
    for (int i = 0; i < 60; ++i) {
      const KernelCase c = MakeRandomCase(random);
      CAPTURE(c.slice.query_rows);
      CAPTURE(c.slice.key_rows);
      CAPTURE(c.slice.head_dim);
      CheckWithin(c, target, PrefillAttention, LoopAttention(c.slice));
    }
  }
}

TEST_CASE("only bfloat16 inputs use products of bfloat16") {
  const EachTarget targets;
  const auto vectors = std::find_if(
      targets.names().begin(), targets.names().end(),
      [](const std::string& name) {
        return std::ranges::find(kBf16Targets, name) == std::end(kBf16Targets);
      });
  REQUIRE(vectors != targets.names().end());
  for (const Dtype dtype : kDtypes) {
    const KernelCase c = MakeCase({1, 20, 300, 64, 64}, dtype, 37);
    REQUIRE(UseKernelTarget(*vectors));
    const Result expected = RunKernel(c.slice, PrefillAttention);
    for (const char* const target : kBf16Targets) {
      CAPTURE(target);
      if (!UseKernelTarget(target)) continue;
      const Result r = RunKernel(c.slice, PrefillAttention);
      CHECK(SameBits(r.out, expected.out) == (dtype != Dtype::kBF16));
    }
  }
}

TEST_CASE("rows without visible keys give zeros") {
  KernelCase c = MakeCase({2, 10, 0, 16, 16}, Dtype::kF32, 29);
  for (const Kernel kernel : kKernels) {
    const Result r = RunKernel(c.slice, kernel);
    for (const float x : r.out) CHECK(x == 0);
    for (const float x : r.lse) {
      CHECK(x == -std::numeric_limits<float>::infinity());
    }
  }
}

TEST_CASE("unknown targets are refused") {
  CHECK(!UseKernelTarget("AVX9"));
  CHECK(UseKernelTarget(""));
}

}  // namespace
}  // namespace shardc::exec
