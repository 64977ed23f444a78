#include "verify/cases/problem_data.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "exec/operations/operation.h"
#include "verify/cases/grid.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {
namespace {

using exec::BlockMask;
using exec::Buffer;

// Returns a case of blocksparse attention with 4 queries and 8 keys, whose mask
// has blocks of 2 queries and 2 keys. The heads are sharded over two devices.
Case BlocksCase(BlockMask mask) {
  Case test;
  test.operation = &exec::kBlockSparse;
  test.mesh = MeshOf({{"tp", 2}});
  test.sizes = {2, 4, 8, 4, 2, 8, 0};
  test.features.causal = true;
  test.settings.block_mask = mask;
  test.settings.blocksize_q = test.settings.blocksize_k = 2;
  Assignment axes;
  axes.heads = axes.key_heads = {"tp"};
  test.specs = SpecsFor(test.layout, axes, 0, false);
  test.seed = 5;
  return test;
}

// Runs blocksparse with a table that aligns the first query with the first key,
// although the last query should be aligned with the last key.
exec::OperationOutcome TopLeft(exec::Machine& machine,
                               const exec::AttentionProblem& problem,
                               const exec::AttentionSpecs& specs,
                               const exec::OperationSettings& settings) {
  exec::AttentionProblem given = problem;
  exec::OperationSettings custom = settings;
  custom.block_mask = BlockMask::kCustom;
  given.blocks = Buffer::Zeros({1, 1, 2, 4}, Dtype::kBool);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      given.blocks->integers[static_cast<size_t>(i * 4 + j)] = 1;
    }
  }
  return exec::kBlockSparse.run(machine, given, specs, custom);
}

TEST_CASE("the reference uses no table of the operation under test") {
  for (const BlockMask mask :
       {BlockMask::kCausal, BlockMask::kSliding, BlockMask::kGlobal}) {
    Case test = BlocksCase(mask);
    if (mask != BlockMask::kCausal) test.features.window = 3;
    CHECK(InputsOf(test, MakeProblem(test)).blocks.empty());
    const CaseResult right = RunCase(test);
    CHECK(right.reason == "");
    CHECK(right.status == Status::kPass);
    const exec::Operation& wrong = exec::kBlockSparse;
    const exec::Operation top_left = {.name = "top_left",
                                      .summary = "a table shifted by four",
                                      .supports = wrong.supports,
                                      .heads_on_keys = true,
                                      .settings = wrong.settings,
                                      .inputs = wrong.inputs,
                                      .bytes = wrong.bytes,
                                      .run = TopLeft};
    test.operation = &top_left;
    const CaseResult off = RunCase(test);
    CHECK(off.status == Status::kFail);
    CHECK(off.failed == Check::kError);
  }
  Case custom = BlocksCase(BlockMask::kCustom);
  custom.features.custom_blocks = true;
  const dense::Inputs in = InputsOf(custom, MakeProblem(custom));
  CHECK(in.blocks.shape == std::vector<int64_t>{1, 4, 2, 4});
  CHECK(in.block_rows == 2);
  CHECK(RunCase(custom).status == Status::kPass);
}

TEST_CASE("blocks of rows with different lengths follow their keys") {
  for (const Layout layout : kAllLayouts) {
    for (const BlockMask mask : {BlockMask::kCausal, BlockMask::kSliding}) {
      for (int64_t window = 1; window < 8; ++window) {
        CAPTURE(LayoutName(layout));
        CAPTURE(window);
        Case test = BlocksCase(mask);
        test.sizes.batch = 4;
        test.sizes.query_length = 2;
        test.sizes.key_length = 16;
        test.layout = layout;
        Assignment axes;
        axes.heads = axes.key_heads = {"tp"};
        test.specs = SpecsFor(layout, axes, 0, false);
        test.features.ragged = true;
        test.features.window = window;
        const CaseResult result = RunCase(test);
        CHECK(result.reason == "");
        CHECK(result.status == Status::kPass);
      }
    }
  }
}

TEST_CASE("positions of packed tokens are counted, not copied") {
  Case test = BlocksCase(BlockMask::kCausal);
  test.layout = Layout::kThd;
  test.features.ragged = true;
  Assignment axes;
  axes.heads = axes.key_heads = {"tp"};
  test.specs = SpecsFor(test.layout, axes, 0, false);
  exec::AttentionProblem problem = MakeProblem(test);
  const dense::Inputs right = InputsOf(test, problem);
  CHECK(std::equal(right.key_positions.begin(), right.key_positions.end(),
                   problem.key_positions->integers.begin()));
  for (int32_t& position : problem.query_positions->integers) ++position;
  CHECK(InputsOf(test, problem).query_positions == right.query_positions);
}

}  // namespace
}  // namespace shardc::verify
