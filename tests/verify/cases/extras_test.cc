// Tests inputs besides query and key that few random cases use, in layouts that
// need an offset or are refused.
#include <doctest/doctest.h>

#include <iterator>
#include <string>
#include <vector>

#include "exec/machine/random.h"
#include "exec/operations/operation.h"
#include "verify/cases/grid.h"
#include "verify/cases/random_cases.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {
namespace {

Case CaseOf(const exec::Operation& operation, const Sizes& sizes,
            const Assignment& axes, uint64_t seed = 11) {
  Case test;
  test.operation = &operation;
  test.mesh = MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
  test.sizes = sizes;
  test.features.causal = true;
  test.specs = SpecsFor(test.layout, axes, 0, false);
  test.settings.blocksize_q = test.settings.blocksize_k = 3;
  test.seed = seed;
  return test;
}

Assignment AllAxes() {
  Assignment axes;
  axes.batch = {"dp"};
  axes.query_length = axes.key_length = {"sp"};
  axes.heads = axes.key_heads = {"tp"};
  return axes;
}

void Passes(const Case& test) {
  CAPTURE(CaseText(test));
  const CaseResult result = RunCase(test);
  CHECK(result.reason == "");
  CHECK(result.status == Status::kPass);
}

const exec::Operation* const kDense[] = {
    &exec::kVanilla, &exec::kSdpa,        &exec::kFlashAttention,
    &exec::kRing,    &exec::kBlockSparse, &exec::kUlysses};

TEST_CASE("a bias or a mask may be replicated where the query is sharded") {
  for (const exec::Operation* operation : kDense) {
    for (const bool packed : {false, true}) {
      Case test = CaseOf(*operation, {4, 8, 8, 8, 4, 8, 0}, AllAxes());
      if (packed && operation == &exec::kUlysses) continue;
      if (packed) {
        test.layout = Layout::kThd;
        test.specs = SpecsFor(test.layout, AllAxes(), 0, false);
      }
      test.specs.bias = test.specs.mask = Spec(4);
      Case bias = test;
      bias.features.bias = bias.features.bias_by_head = true;
      Passes(bias);
      Case mask = test;
      mask.features.mask = true;
      Passes(mask);
      mask.features = {};
      mask.features.additive_mask = true;
      mask.features.causal = false;
      Passes(mask);
    }
  }
}

TEST_CASE("a ring reads the columns of the current block, in every order") {
  for (const auto order :
       {exec::SequenceOrder::kContiguous, exec::SequenceOrder::kZigZag,
        exec::SequenceOrder::kStriped}) {
    for (const int parts : {2, 4}) {
      Case test = CaseOf(exec::kRing, {2, 16, 16, 4, 4, 8, 0}, AllAxes());
      test.mesh = MeshOf({{"dp", 2}, {"sp", parts}, {"tp", 2}});
      test.settings.order = order;
      for (const bool causal : {false, true}) {
        test.features = {};
        test.features.causal = causal;
        test.features.bias = true;
        Passes(test);
        test.features.bias = false;
        test.features.mask = true;
        Passes(test);
        test.features.mask = false;
        test.features.additive_mask = true;
        Passes(test);
      }
    }
  }
}

TEST_CASE("a ring skips no block with a visible key") {
  for (const auto order :
       {exec::SequenceOrder::kContiguous, exec::SequenceOrder::kStriped}) {
    // With 4 tokens each device has only one.
    for (int64_t tokens : {4, 8}) {
      Case test =
          CaseOf(exec::kRing, {2, tokens, tokens, 4, 4, 8, 0}, AllAxes());
      test.mesh = MeshOf({{"dp", 2}, {"sp", 4}, {"tp", 2}});
      test.settings.order = order;
      Passes(test);
      test.features.window = 1;
      Passes(test);
      test.features.window = 1;
      test.features.window_right = 1;
      test.features.causal = false;
      Passes(test);
    }
  }
}

TEST_CASE("a zig-zag ring accepts lengths of two chunks a device") {
  Case test = CaseOf(exec::kRing, {2, 6, 6, 4, 4, 8, 0}, AllAxes());
  test.settings.order = exec::SequenceOrder::kZigZag;
  const CaseResult result = RunCase(test);
  CHECK(result.status == Status::kUnsupported);
  CHECK(result.reason == "lengths 6 and 6 do not split into 4 chunks");
  CHECK(result.axis == "sp");
  test.settings.order = exec::SequenceOrder::kStriped;
  Passes(test);
  // The length of the keys must divide as that of the query does.
  test.sizes.query_length = 4;
  test.settings.order = exec::SequenceOrder::kZigZag;
  CHECK(RunCase(test).reason == "lengths 4 and 6 do not split into 4 chunks");
}

TEST_CASE("sinks by key head follow heads that are repeated or exchanged") {
  for (const exec::Operation* operation : kDense) {
    for (const int rank : {1, 2}) {
      // With 4 key heads each device has two, which the all_to_all over `sp`
      // divides; with 2 it has one, which is repeated.
      for (const int64_t key_heads : {2, 4}) {
        Case test =
            CaseOf(*operation, {2, 8, 8, 8, key_heads, 8, 0}, AllAxes());
        test.features.sinks_rank = rank;
        test.specs = SpecsFor(test.layout, AllAxes(), rank, false);
        Passes(test);
        test.specs.softmax_aux.clear();
        Passes(test);
      }
    }
  }
  // Each device has two key heads, and four ranks take part in the all_to_all,
  // so two ranks share each head.
  Case test = CaseOf(exec::kUlysses, {2, 8, 8, 16, 4, 8, 0}, AllAxes());
  test.mesh = MeshOf({{"dp", 1}, {"sp", 4}, {"tp", 2}});
  test.features.sinks_rank = 2;
  test.specs = SpecsFor(test.layout, AllAxes(), 2, false);
  Passes(test);
}

TEST_CASE(
    "an axis that would shard two dimensions of an extra input shards one") {
  Assignment axes;
  axes.batch = {"dp"};
  axes.key_length = axes.heads = {"tp"};
  Case test = CaseOf(exec::kFlashDecoding, {4, 1, 16, 8, 4, 8, 0}, axes);
  for (const bool by_head : {false, true}) {
    test.features.bias = true;
    test.features.bias_by_head = by_head;
    for (const Spec& spec :
         {Spec(4), Spec{{"dp"}, by_head ? AxisGroup{"tp"} : AxisGroup{}},
          Spec{{"dp"}, {}, {}, {"tp"}}}) {
      test.specs.bias = spec;
      Passes(test);
    }
  }
  // For a bias such an axis is an error if its spec was given explicitly.
  test.specs.bias = {{"tp"}, {"tp"}};
  const CaseResult result = RunCase(test);
  CHECK(result.status == Status::kUnsupported);
  CHECK(result.reason.starts_with("bias: "));
}

// Uses random legal specs for bias and mask, and also for the query if the
// operation supports any.
TEST_CASE("a bias or a mask may have any legal layout") {
  const std::vector<std::string> names = {"dp", "sp", "tp"};
  exec::RandomSequence random{exec::Random(3)};
  const auto group = [&](uint64_t dims, std::vector<AxisGroup>& to) {
    for (const std::string& axis : names) {
      const uint64_t dim = random.Below(dims + 1);
      if (dim < dims) to[dim].push_back(axis);
    }
  };
  for (int i = 0; i < 240; ++i) {
    const bool decodes = random.Chance(0.25);
    const exec::Operation& operation =
        decodes ? exec::kFlashDecoding
                : *kDense[random.Below(std::size(kDense))];
    Assignment axes = AllAxes();
    if (operation.global_view && random.Chance(0.7)) {
      std::vector<AxisGroup> any(4);
      group(4, any);
      axes.batch = any[0];
      axes.heads = any[1];
      axes.key_heads = any[1];
      axes.query_length = any[2];
      axes.key_length = any[3];
    }
    if (decodes) {
      axes.query_length = {};
      if (random.Chance(0.5)) {
        axes.key_length = axes.heads;
        axes.key_heads = {};
      }
    }
    Case test = CaseOf(operation, {8, decodes ? 1 : 8, 8, 8, 8, 8, 0}, axes,
                       static_cast<uint64_t>(i));
    test.features.bias = random.Chance(0.7);
    test.features.bias_by_head = test.features.bias && random.Chance(0.7);
    test.features.mask = !test.features.bias;
    std::vector<AxisGroup> own(4);
    group(4, own);
    if (!test.features.bias_by_head) own[1].clear();
    if (decodes) own[2].clear();
    test.specs.bias = test.specs.mask = Spec(own.begin(), own.end());
    Passes(test);
  }
}

TEST_CASE("a latent and its projections are cast to the compute dtype") {
  for (const Dtype dtype : {Dtype::kBF16, Dtype::kF16}) {
    for (uint64_t seed = 1; seed < 6; ++seed) {
      Assignment axes;
      axes.batch = {"dp"};
      axes.heads = axes.key_heads = {"tp"};
      Case test = CaseOf(exec::kLatent, {2, 1, 12, 4, 4, 16, 0}, axes, seed);
      test.settings.runtime_dtype = dtype;
      test.settings.page_size = 4;
      Passes(test);
    }
  }
}

TEST_CASE(
    "bits must equal one device's wherever no reduction crosses devices") {
  struct Row {
    const exec::Operation* operation;
    bool lengths;  // split over sp
    bool exact;
  };
  const Row rows[] = {
      {&exec::kVanilla, false, true},
      {&exec::kSdpa, false, true},
      {&exec::kSdpa, true, true},
      {&exec::kFlashAttention, true, true},
      {&exec::kBlockSparse, true, true},
      {&exec::kUlysses, true, true},
      {&exec::kRing, false, true},
      {&exec::kRing, true, false},
      {&exec::kFlashDecoding, false, true},
      {&exec::kFlashDecoding, true, false},
      {&exec::kRaggedV2, false, true},
      {&exec::kRaggedV3, false, true},
      {&exec::kUnified, false, true},
      {&exec::kPagedFlash, false, true},
      {&exec::kLatent, false, true},
      {&exec::kLatent, true, false},
  };
  for (const Row& row : rows) {
    Assignment axes = AllAxes();
    if (!row.lengths) axes.query_length = axes.key_length = {};
    const bool decodes = row.operation->decode_only || row.operation->IsPaged();
    if (decodes) axes.query_length = {};
    Case test =
        CaseOf(*row.operation, {4, decodes ? 1 : 8, 8, 8, 8, 16, 0}, axes);
    CAPTURE(CaseText(test));
    const CaseResult result = RunCase(test);
    CHECK(result.reason == "");
    CHECK(result.status == Status::kPass);
    CHECK(result.exact == row.exact);
  }
}

}  // namespace
}  // namespace shardc::verify
