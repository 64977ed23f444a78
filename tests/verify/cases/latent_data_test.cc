#include "verify/cases/latent_data.h"

#include <doctest/doctest.h>

#include "exec/operations/operation.h"
#include "verify/cases/grid.h"
#include "verify/cases/problem_data.h"
#include "verify/faults/injection.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {
namespace {

Case Base(const Assignment& axes) {
  Case test;
  test.operation = exec::FindOperation("multi_latent_ragged_page_attention_v1");
  test.mesh = MeshOf({{"dp", 2}, {"sp", 2}, {"tp", 2}});
  test.sizes = {2, 1, 12, 4, 4, 16, 8};
  test.features.causal = true;
  test.features.ragged = true;
  test.specs = SpecsFor(test.layout, axes, 0, false);
  test.settings.page_size = 4;
  test.seed = 3;
  return test;
}

Assignment Split() {
  Assignment axes;
  axes.batch = {"dp"};
  axes.heads = axes.key_heads = {"tp"};
  return axes;
}

TEST_CASE("the absorbed form is exact over heads and requests") {
  const CaseResult result = RunCase(Base(Split()));
  CHECK(result.reason == "");
  CHECK(result.status == Status::kPass);
  CHECK(result.exact);
}

TEST_CASE("a split latent adds logits, a split length joins partials") {
  Assignment axes = Split();
  axes.heads = axes.key_heads = {};
  axes.dim = axes.value_dim = {"tp"};
  axes.key_length = {"sp"};
  const CaseResult result = RunCase(Base(axes));
  CHECK(result.reason == "");
  CHECK(result.status == Status::kPass);
  CHECK_FALSE(result.exact);
}

TEST_CASE("a latent row has the sizes that it is given") {
  Case test = Base(Split());
  test.sizes.head_dim = 12;
  test.sizes.latent_rank = 20;
  test.sizes.latent_rope_dim = 4;
  test.sizes.latent_value_dim = 6;
  SizeLatent(test.sizes);
  const exec::AttentionProblem problem = MakeProblem(test);
  REQUIRE(problem.latent);
  CHECK(problem.latent->latent.shape == Shape{2, 12, 20});
  CHECK(problem.latent->rope_key.shape == Shape{2, 12, 4});
  CHECK(problem.latent->up_key.shape == Shape{4, 20, 8});
  CHECK(problem.latent->up_value.shape == Shape{4, 20, 6});
  CHECK(problem.value.shape == Shape{2, 12, 4, 6});
  const CaseResult result = RunCase(test);
  CHECK(result.reason == "");
  CHECK(result.status == Status::kPass);
}

TEST_CASE("a latent of 512 does not divide over three devices") {
  Assignment axes;
  axes.dim = {"tp"};
  Case test = Base(axes);
  test.mesh = MeshOf({{"tp", 3}});
  test.sizes.head_dim = 192;
  test.sizes.latent_rank = 512;
  test.sizes.latent_rope_dim = 64;
  const CaseResult result = RunCase(test);
  CHECK(result.status == Status::kUnsupported);
  CHECK(result.reason == "a latent of 512 does not divide over `tp`");
  CHECK(result.axis == "tp");
}

TEST_CASE("faults of the absorbed form are caught") {
  Assignment axes = Split();
  axes.heads = axes.key_heads = {};
  axes.dim = axes.value_dim = {"tp"};
  for (Fault fault : {Fault::kLatentScale, Fault::kLatentRopeOnEach}) {
    RunOptions options;
    Inject(InjectionOf(fault), options);
    const CaseResult result = RunCase(Base(axes), options);
    CHECK(result.status == Status::kFail);
    CHECK(result.failed == Check::kError);
  }
}

TEST_CASE("what latent attention cannot do") {
  Case grouped = Base(Split());
  grouped.sizes.key_heads = 2;
  CHECK(RunCase(grouped).reason ==
        "there is no latent: 4 query heads on 2 key heads");
  Assignment axes = Split();
  axes.heads = axes.key_heads = {};
  axes.query_length = {"sp"};
  Case split = Base(axes);
  split.sizes.query_length = 4;
  const CaseResult result = RunCase(split);
  CHECK(result.status == Status::kUnsupported);
  CHECK(result.reason == "the query's length is split over `sp`");
  CHECK(result.axis == "sp");
}

}  // namespace
}  // namespace shardc::verify
