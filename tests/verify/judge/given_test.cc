#include "verify/judge/explain.h"

#include <doctest/doctest.h>

#include <functional>

#include "exec/operations/operation.h"
#include "verify/cases/grid.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {
namespace {

// The bytes that are computed from sizes must equal those of a run.
TEST_CASE("the bytes of shapes equal those of tensors") {
  struct Named {
    const char* what;
    std::function<void(Case&)> change;
  };
  const Named cases[] = {
      {"plain", [](Case&) {}},
      {"bias", [](Case& test) { test.features.bias = true; }},
      {"bias by head",
       [](Case& test) {
         test.features.bias = test.features.bias_by_head = true;
       }},
      {"mask", [](Case& test) { test.features.mask = true; }},
      {"additive mask", [](Case& test) { test.features.additive_mask = true; }},
      {"segments", [](Case& test) { test.features.segments = true; }},
      {"sinks", [](Case& test) { test.features.sinks_rank = 1; }},
      {"several sinks", [](Case& test) { test.features.sinks_rank = 2; }},
      {"int8", [](Case& test) { test.kv_dtype = Dtype::kI8; }},
  };
  for (const Named& one : cases) {
    CAPTURE(one.what);
    Assignment axes;
    axes.batch = {"dp"};
    axes.query_length = axes.key_length = {"sp"};
    axes.heads = axes.key_heads = {"tp"};
    Case test;
    test.operation = &exec::kFlashAttention;
    test.mesh = MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
    test.sizes = {4, 16, 16, 8, 4, 16, 0};
    test.specs = SpecsFor(test.layout, axes, 0, false);
    // No operation keeps bias, masks or ids in these layouts, so all are
    // resharded.
    test.specs.bias = test.specs.mask = {{"sp"}, {}, {}, {}};
    test.specs.query_segments = test.specs.key_segments = {{"sp"}, {}};
    one.change(test);
    test.specs.softmax_aux =
        test.features.sinks_rank == 2 ? Spec{{}, {"sp"}} : Spec{{"sp"}};
    CHECK_FALSE(RefusalAt(test));
    const exec::SentBytes sent = SentAt(test);
    const CaseResult result = RunCase(test);
    CHECK_MESSAGE(result.status == Status::kPass, result.reason);
    CHECK(sent == result.ledger.Sent());
  }
}

}  // namespace
}  // namespace shardc::verify
