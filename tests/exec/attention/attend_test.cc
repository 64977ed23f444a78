// Compares attention over slices by the kernels with attention by plain loops.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "exec/attention/attention_loops.h"
#include "exec/kernels/kernels.h"
#include "exec/machine/random.h"

namespace shardc::exec {
namespace {

// The inputs of one device. A case may leave out some of them.
struct Inputs {
  Buffer query, key, value, query_positions, key_positions;
  Buffer query_segments, key_segments, lengths, starts;
  Buffer bias, mask, additive;
  AttentionOptions options;
  LocalSlice slice;
};

Buffer Normal(Shape shape, Random random) {
  Buffer out = Buffer::Zeros(std::move(shape), Dtype::kF32);
  for (size_t i = 0; i < out.real.size(); ++i) {
    out.real[i] = static_cast<float>(random.Normal(i));
  }
  return out;
}

Buffer Integers(Shape shape, const std::vector<int32_t>& values) {
  Buffer out = Buffer::Zeros(std::move(shape), Dtype::kI32);
  REQUIRE(out.integers.size() == values.size());
  out.integers = values;
  return out;
}

constexpr int64_t kB = 2, kT = 9, kS = 300, kH = 6, kD = 20;

void Fill(Inputs& in, std::vector<int32_t> key_head) {
  const Random random(5);
  const int64_t key_heads =
      *std::max_element(key_head.begin(), key_head.end()) + 1;
  in.query = Normal({kB, kT, kH, kD}, random.Split(1));
  in.key = Normal({kB, kS, key_heads, kD}, random.Split(2));
  in.value = Normal({kB, kS, key_heads, 12}, random.Split(3));
  std::vector<int32_t> q, k;
  for (int64_t b = 0; b < kB; ++b) {
    for (int64_t t = 0; t < kT; ++t) {
      q.push_back(static_cast<int32_t>(kS - kT + t - 40 * b));
    }
    for (int64_t s = 0; s < kS; ++s) k.push_back(static_cast<int32_t>(s));
  }
  in.query_positions = Integers({kB, kT}, q);
  in.key_positions = Integers({kB, kS}, k);
  in.slice.query = &in.query;
  in.slice.key = &in.key;
  in.slice.value = &in.value;
  in.slice.key_head = std::move(key_head);
  in.slice.query_positions = &in.query_positions;
  in.slice.key_positions = &in.key_positions;
  in.slice.scale = 0.3f;
  in.slice.options = &in.options;
}

SoftmaxState ByLoops(const LocalSlice& slice, int64_t begin, int64_t end) {
  SoftmaxState state = EmptyState(slice);
  for (int64_t b = 0; b < slice.batch(); ++b) {
    for (int64_t h = 0; h < slice.heads(); ++h) {
      AttendTileByLoops(slice, {b, h, 0, slice.rows(), begin, end}, 64, state);
    }
  }
  return state;
}

void CheckSame(const SoftmaxState& got, const SoftmaxState& expected) {
  const Buffer a = FinishState(got, Dtype::kF32);
  const Buffer b = FinishState(expected, Dtype::kF32);
  REQUIRE(a.shape == b.shape);
  int wrong = 0;
  for (size_t i = 0; i < a.real.size(); ++i) {
    wrong += !(std::abs(a.real[i] - b.real[i]) < 3e-6f);
  }
  CHECK(wrong == 0);
  const Buffer c = LogSumExp(got);
  const Buffer d = LogSumExp(expected);
  for (size_t i = 0; i < c.real.size(); ++i) {
    wrong +=
        !(c.real[i] == d.real[i] || std::abs(c.real[i] - d.real[i]) < 1e-5f);
  }
  CHECK(wrong == 0);
}

// Compares kernels and loops over entire slices, ranges of keys, ranges of
// rows, and one tile.
void CheckAgainstLoops(const Inputs& in) {
  const LocalSlice& slice = in.slice;
  const SoftmaxState expected = ByLoops(slice, 0, slice.keys());
  SoftmaxState state = EmptyState(slice);
  AttendKeys(slice, 0, slice.keys(), 64, state);
  CheckSame(state, expected);

  state = EmptyState(slice);
  AttendKeys(slice, 0, 130, 64, state);
  AttendKeys(slice, 130, slice.keys(), 64, state);
  CheckSame(state, expected);

  SoftmaxState rows = EmptyState(slice);
  for (int64_t t = 0; t < slice.rows(); t += 4) {
    AttendBlock(slice, t, std::min(t + 4, slice.rows()), 0, slice.keys(), 64,
                rows);
  }
  CheckSame(rows, expected);
  state = EmptyState(slice);
  AttendKeys(slice, 0, slice.keys(), 64, state);
  CHECK(BitEqual(rows.out, state.out));
  CHECK(BitEqual(rows.sum, state.sum));

  SoftmaxState tiles = EmptyState(slice);
  for (int64_t b = 0; b < slice.batch(); ++b) {
    for (int64_t h = 0; h < slice.heads(); ++h) {
      AttendTile(slice, {b, h, 0, slice.rows(), 0, slice.keys()}, 64, tiles);
    }
  }
  CHECK(BitEqual(tiles.out, state.out));
}

using Change = void (*)(Inputs&);
struct Named {
  const char* name;
  Change change;
};

void Lengths(Inputs& in) {
  in.lengths = Integers({kB}, {200, 290});
  in.starts = Integers({kB}, {3, 17});
  in.slice.key_lengths = &in.lengths;
  in.slice.key_starts = &in.starts;
}

constexpr Named kChanges[] = {
    {"plain", [](Inputs&) {}},
    {"causal", [](Inputs& in) { in.options.causal = true; }},
    {"window", [](Inputs& in) { in.options.window = LastKeys(7); }},
    {"two-sided window",
     [](Inputs& in) {
       in.options.window = Window{5, 40};
     }},
    {"lengths and starts", Lengths},
    {"lengths, causal, cap",
     [](Inputs& in) {
       Lengths(in);
       in.options.causal = true;
       in.options.soft_cap = 2;
     }},
    {"positions of a zig-zag and an empty slot",
     [](Inputs& in) {
       in.options.causal = true;
       for (size_t i = 100; i < 200; ++i) in.key_positions.integers[i] += 90;
       in.key_positions.integers[7] = -1;
     }},
    {"segments",
     [](Inputs& in) {
       std::vector<int32_t> q, k;
       for (int64_t i = 0; i < kB * kT; ++i) {
         q.push_back(static_cast<int32_t>(i % 4) - 1);
       }
       for (int64_t i = 0; i < kB * kS; ++i) {
         k.push_back(static_cast<int32_t>(i / 50 % 4) - 1);
       }
       in.query_segments = Integers({kB, kT}, q);
       in.key_segments = Integers({kB, kS}, k);
       in.slice.query_segments = &in.query_segments;
       in.slice.key_segments = &in.key_segments;
     }},
    {"a mask for each head",
     [](Inputs& in) {
       in.mask = Buffer::Zeros({1, kH, 1, kS}, Dtype::kBool);
       for (size_t i = 0; i < in.mask.integers.size(); ++i) {
         in.mask.integers[i] =
             i % 3 != 0 && i / kS != 2;  // head 2 sees nothing
       }
       in.slice.mask.buffer = &in.mask;
     }},
    {"bias and additive mask",
     [](Inputs& in) {
       in.bias = Normal({1, kH, kT, 1}, Random(8));
       // Besides mask values the additive mask has ordinary numbers, as
       // distance biases do.
       in.additive = Normal({kB, 1, 1, kS}, Random(9));
       for (size_t i = 0; i < in.additive.real.size(); i += 5) {
         in.additive.real[i] = static_cast<float>(kMaskValue);
       }
       in.slice.bias.buffer = &in.bias;
       in.slice.additive_mask.buffer = &in.additive;
     }},
};

TEST_CASE("kernels give what the loops give") {
  const std::vector<std::vector<int32_t>> maps = {
      {0, 1, 2, 3, 4, 5},
      {0, 0, 0, 1, 1, 1},
      {0, 0, 0, 0, 0, 0},
      {0, 0, 1, 1, 0, 1},  // a naive map may come back to a head
  };
  for (const std::string& target : KernelTargets()) {
    REQUIRE(UseKernelTarget(target));
    for (const Named& named : kChanges) {
      for (const auto& map : maps) {
        CAPTURE(target);
        CAPTURE(named.name);
        Inputs in;
        Fill(in, map);
        named.change(in);
        CheckAgainstLoops(in);
      }
    }
  }
  UseKernelTarget("");
}

TEST_CASE("a query of one row uses the decode kernel and agrees too") {
  for (const Named& named : kChanges) {
    CAPTURE(named.name);
    Inputs in;
    Fill(in, {0, 0, 1, 1, 2, 2});
    named.change(in);
    in.query = SliceDim(in.query, 1, 0, 1);
    in.query_positions = SliceDim(in.query_positions, 1, 0, 1);
    if (in.slice.query_segments != nullptr) {
      in.query_segments = SliceDim(in.query_segments, 1, 1, 1);
    }
    in.slice.one_row = true;
    SoftmaxState state = EmptyState(in.slice);
    AttendKeys(in.slice, 0, kS, 64, state);
    CheckSame(state, ByLoops(in.slice, 0, kS));
  }
}

// A row that may attend to a key is no masked row, even if the weight of that
// key is 0, and whichever key it is.
TEST_CASE("a row whose only logit is -inf is not treated as a masked row") {
  for (const int64_t seen : {int64_t{0}, int64_t{1}, kS - 1}) {
    CAPTURE(seen);
    Inputs in;
    Fill(in, {0, 0, 0, 1, 1, 1});
    in.options.masked_rows = MaskedRows::kMean;
    in.mask = Buffer::Zeros({1, 1, 1, kS}, Dtype::kBool);
    in.mask.integers[static_cast<size_t>(seen)] = 1;
    in.slice.mask.buffer = &in.mask;
    in.bias = Buffer::Zeros({1, 1, 1, kS}, Dtype::kF32);
    in.bias.real.assign(in.bias.real.size(), -INFINITY);
    in.slice.bias.buffer = &in.bias;
    SoftmaxState state = EmptyState(in.slice);
    AttendRows(in.slice, state);
    for (const float x : state.sum.real) CHECK(x == 0);
    for (const float x : state.out.real) CHECK(x == 0);
  }
}

TEST_CASE("dropout and the mean of masked rows are computed by loops") {
  for (const bool dropout : {true, false}) {
    Inputs in;
    Fill(in, {0, 0, 0, 1, 1, 1});
    if (dropout) {
      in.options.dropout = 0.3;
    } else {
      in.options.masked_rows = MaskedRows::kMean;
    }
    SoftmaxState state = EmptyState(in.slice);
    AttendKeys(in.slice, 0, kS, 64, state);
    CHECK(BitEqual(state.out, ByLoops(in.slice, 0, kS).out));
  }
}

}  // namespace
}  // namespace shardc::exec
