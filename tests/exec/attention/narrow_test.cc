// Compares quantised matmuls with a reference, softmax in 16 bits with results
// computed by hand, and the bytes of a sharded head dimension with a formula.
#include "exec/attention/narrow.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>

#include "exec/machine/mesh_fixture.h"
#include "exec/machine/random.h"
#include "exec/operations/operation.h"
#include "floats/convert.h"
#include "reference/quantised_matmul.h"

namespace shardc::exec {
namespace {

// Returns the rows of one head as a matrix [rows, D], or its transpose if
// `columns`.
reference::Matrix RowsOf(const Buffer& x, int64_t head, bool columns) {
  const int64_t rows = x.shape[1], heads = x.shape[2], dim = x.shape[3];
  auto out = columns ? reference::Matrix::Zeros(dim, rows)
                     : reference::Matrix::Zeros(rows, dim);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < dim; ++d) {
      const auto from = static_cast<size_t>((r * heads + head) * dim + d);
      out.data[static_cast<size_t>(columns ? d * rows + r : r * dim + d)] =
          double{x.real[from]};
    }
  }
  return out;
}

TEST_CASE("quantised scores are the reference's products") {
  for (const int bits : {8, 4}) {
    const Buffer query = Normal({1, 5, 4, 24}, 1);
    const Buffer key = Normal({1, 7, 2, 24}, 2);
    AttentionOptions options;
    LocalSlice slice;
    slice.query = &query;
    slice.key = &key;
    slice.value = &key;
    slice.key_head = {0, 0, 1, 1};
    slice.scale = 0.25f;
    slice.options = &options;
    const Buffer q = LargestOfRows(query), k = LargestOfRows(key);
    const Buffer scores =
        ScaledScores(slice, IntegerScores(slice, q, k, bits), q, k, bits);
    for (int64_t h = 0; h < 4; ++h) {
      const auto want = reference::QuantisedMatmul(
          RowsOf(query, h, false), RowsOf(key, h / 2, true), bits);
      for (size_t i = 0; i < 35; ++i) {
        CHECK(scores.real[static_cast<size_t>(h) * 35 + i] ==
              doctest::Approx(want.product.data[i] * 0.25).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("softmax in a dtype rounds each step") {
  // 1.0078125 = 1 + 2^-7 is a number of bfloat16; 1.003 is not, and is rounded
  // to 1.
  std::array<float, 3> row = {1.003f, 1.0078125f, -3.0f};
  CHECK(SoftmaxIn(Dtype::kBF16, {}, row));
  const auto r = [](float x) { return RoundTo(Dtype::kBF16, x); };
  const float a = r(std::exp(-0.0078125f)), c = r(std::exp(r(-4.0078125f)));
  const float sum = r(a + 1 + c);
  CHECK(row[0] == r(a / sum));
  CHECK(row[1] == r(1 / sum));
  CHECK(row[2] == r(c / sum));
}

TEST_CASE("a sink takes its share of a narrow softmax") {
  std::array<float, 2> row = {0, 0};
  const std::array<float, 2> sinks = {0, 0};
  CHECK(SoftmaxIn(Dtype::kF16, sinks, row));
  CHECK(row == std::array<float, 2>{0.25f, 0.25f});
}

TEST_CASE("masked logits stay finite in float16") {
  const auto masked = static_cast<float>(kMaskValue);
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBF16}) {
    std::array<float, 4> row = {masked, masked, masked, masked};
    CHECK(SoftmaxIn(dtype, {}, row));
    CHECK(row == std::array<float, 4>{0.25f, 0.25f, 0.25f, 0.25f});
    row = {masked, 2, masked, 2};
    CHECK(SoftmaxIn(dtype, {}, row));
    CHECK(row == std::array<float, 4>{0, 0.5f, 0, 0.5f});
  }
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  std::array<float, 2> row = {kNone, kNone};
  CHECK_FALSE(SoftmaxIn(Dtype::kBF16, {}, row));
  CHECK(row == std::array<float, 2>{0, 0});
}

OperationOutcome RunOn(Machine& machine, std::string_view name,
                       const AttentionSpecs& specs,
                       const OperationSettings& settings) {
  AttentionProblem problem;
  problem.query = Normal({2, 6, 4, 32}, 1);
  problem.key = Normal({2, 8, 2, 32}, 2);
  problem.value = Normal({2, 8, 2, 16}, 3);
  problem.options.causal = true;
  return FindOperation(name)->run(machine, problem, specs, settings);
}

TEST_CASE("a split head dimension shares maxima, and keeps the bits") {
  OperationSettings settings;
  settings.dot_bits = 8;
  const SimMesh one = SimMeshOf({{"one", 1}});
  Machine alone(one);
  const auto whole = RunOn(alone, "vanilla", {}, settings);
  REQUIRE(!whole.unsupported);
  for (int64_t n : {2, 4, 8}) {
    const SimMesh mesh = SimMeshOf({{"tp", n}});
    Machine machine(mesh);
    AttentionSpecs specs;
    specs.query = specs.key = {{}, {}, {}, {"tp"}};
    const auto split = RunOn(machine, "vanilla", specs, settings);
    REQUIRE(!split.unsupported);
    CHECK(split.exact);
    CHECK(BitEqual(split.output.local[0], whole.output.local[0]));
    // The maximum of each query row and of each key row and the logits are
    // all-reduced, four bytes each, which sends 2(n-1) times as many.
    CHECK(machine.ledger().TotalSent(Collective::kAllReduce) ==
          2 * (n - 1) * 4 * (2 * 6 * 4 + 2 * 8 * 2 + 2 * 4 * 6 * 8));
  }
}

TEST_CASE("only operations with full rows of logits compute more narrowly") {
  for (const Operation* operation : Operations()) {
    for (const bool bits : {false, true}) {
      CAPTURE(operation->name);
      OperationSettings settings;
      if (bits) {
        settings.dot_bits = 4;
      } else {
        settings.softmax_dtype = Dtype::kBF16;
      }
      const SimMesh mesh = SimMeshOf({{"tp", 2}});
      Machine machine(mesh);
      const auto out = RunOn(machine, operation->name, {}, settings);
      const bool supported = bits ? operation->Takes(Setting::kDotBits)
                                  : operation->narrow_softmax;
      CHECK(out.unsupported.has_value() == !supported);
      if (out.unsupported) CHECK(!out.unsupported->help.empty());
    }
  }
}

}  // namespace
}  // namespace shardc::exec
