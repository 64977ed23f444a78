#include "verify/traces/cache_trace.h"

#include <doctest/doctest.h>

#include "exec/operations/operation.h"
#include "verify/cases/grid.h"
#include "verify/faults/injection.h"

namespace shardc::verify {
namespace {

PagedTrace Base(exec::PageFormat format) {
  PagedTrace trace;
  trace.mesh = MeshOf({{"dp", 2}, {"tp", 2}});
  trace.format = format;
  trace.page_axes = {"dp"};
  trace.head_axes = {"tp"};
  return trace;
}

TEST_CASE("requests that share pages keep their own tokens") {
  for (exec::PageFormat format :
       {exec::PageFormat::kInterleaved, exec::PageFormat::kSeparate,
        exec::PageFormat::kPacked}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      PagedTrace trace = Base(format);
      trace.seed = seed;
      if (seed % 3 == 1) trace.dtype = Dtype::kBF16;
      if (seed % 3 == 2) trace.dtype = Dtype::kI8;
      const CacheTraceResult result = RunPagedTrace(trace, {});
      CAPTURE(result.reason);
      CHECK(result.status == Status::kPass);
    }
    RunOptions options;
    Inject(InjectionOf(Fault::kPagedSharedWritten), options);
    const CacheTraceResult wrong = RunPagedTrace(Base(format), options);
    CHECK(wrong.status == Status::kFail);
    CHECK(wrong.step == 3);
    CHECK(wrong.reason ==
          "request 1 reads another's token at position 6 on device 0");
  }
}

// Short sums hide an accumulator of too few bits; sums over 512 keys do not.
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
  Inject(InjectionOf(Fault::kBf16Accumulator), options);
  const CaseResult result = RunCase(test, options);
  CHECK(result.status == Status::kFail);
  CHECK(result.failed == Check::kError);
}

}  // namespace
}  // namespace shardc::verify
