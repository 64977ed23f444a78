#include "verify/traces/paged_trace.h"

#include <doctest/doctest.h>

#include "exec/operations/operation.h"
#include "verify/cases/grid.h"

namespace shardc::verify {
namespace {

PagedLife Base(exec::PageFormat format) {
  PagedLife life;
  life.mesh = MeshOf({{"dp", 2}, {"tp", 2}});
  life.format = format;
  life.page_axes = {"dp"};
  life.head_axes = {"tp"};
  return life;
}

TEST_CASE("requests that share pages keep their own tokens") {
  for (exec::PageFormat format :
       {exec::PageFormat::kInterleaved, exec::PageFormat::kSeparate,
        exec::PageFormat::kPacked}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      PagedLife life = Base(format);
      life.seed = seed;
      if (seed % 3 == 1) life.dtype = Dtype::kBF16;
      if (seed % 3 == 2) life.dtype = Dtype::kI8;
      const LifetimeResult result = RunPagedLife(life, {});
      CAPTURE(result.reason);
      CHECK(result.status == Status::kPass);
    }
    RunOptions options;
    options.fault = exec::Fault::kPagedSharedWritten;
    const LifetimeResult wrong = RunPagedLife(Base(format), options);
    CHECK(wrong.status == Status::kFail);
    CHECK(wrong.step == 3);
    CHECK(wrong.reason ==
          "request 1 reads another's token at position 6 on device 0");
  }
}

// Short sums hide an accumulator of too few bits; 512 keys do not.
TEST_CASE("a long case in low precision shows a bfloat16 accumulator") {
  Case test;
  test.operation = exec::FindOperation("flash_attn2");
  test.mesh = MeshOf({{"dp", 2}, {"tp", 2}});
  test.dtype = Dtype::kBF16;
  test.sizes = {2, 4, 512, 4, 2, 64, 0};
  test.features.causal = true;
  Assignment axes;
  axes.batch = {"dp"};
  axes.heads = axes.key_heads = {"tp"};
  test.specs = SpecsFor(test.layout, axes, 0, false);
  test.seed = 5;
  CHECK(RunCase(test).status == Status::kPass);
  RunOptions options;
  options.fault = exec::Fault::kBf16Accumulator;
  const CaseResult result = RunCase(test, options);
  CHECK(result.status == Status::kFail);
  CHECK(result.failed == Check::kError);
}

}  // namespace
}  // namespace shardc::verify
