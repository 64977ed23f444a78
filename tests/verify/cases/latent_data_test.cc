#include "verify/cases/problem_data.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "exec/machine/machine.h"
#include "exec/machine/sharded.h"
#include "exec/operations/operation.h"
#include "floats/convert.h"
#include "verify/cases/grid.h"
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

TEST_CASE(
    "a sharded latent adds logits, a sharded length merges partial results") {
  Assignment axes = Split();
  axes.heads = axes.key_heads = {};
  axes.dim = axes.value_dim = {"tp"};
  axes.key_length = {"sp"};
  const CaseResult result = RunCase(Base(axes));
  CHECK(result.reason == "");
  CHECK(result.status == Status::kPass);
  CHECK_FALSE(result.exact);
}

// Returns the gathered output of a case.
exec::Buffer Output(const Case& test, const exec::AttentionProblem& problem) {
  const exec::SimMesh mesh(test.mesh);
  exec::Machine machine(mesh);
  const exec::OperationOutcome out =
      test.operation->run(machine, problem, test.specs, test.settings);
  REQUIRE_MESSAGE(!out.unsupported, out.unsupported->message);
  exec::LayoutError why;
  const auto whole = exec::Gather(mesh, out.output, why);
  REQUIRE_MESSAGE(whole, why.message);
  return *whole;
}

TEST_CASE("all operands of products are cast to the runtime dtype") {
  Case test = Base(Split());
  test.settings.runtime_dtype = Dtype::kBF16;
  const exec::AttentionProblem problem = MakeProblem(test);
  REQUIRE(problem.latent);
  exec::AttentionProblem cast = problem;
  for (exec::Buffer* x :
       {&cast.query, &cast.latent->latent, &cast.latent->rope_key,
        &cast.latent->up_key, &cast.latent->up_value}) {
    for (float& number : x->real) number = RoundTo(Dtype::kBF16, number);
  }
  CHECK(exec::BitEqual(Output(test, problem), Output(test, cast)));
  // Without the runtime dtype the two outputs differ.
  test.settings.runtime_dtype = std::nullopt;
  CHECK_FALSE(exec::BitEqual(Output(test, problem), Output(test, cast)));
}

TEST_CASE("a latent is replicated over the axes of batch and heads") {
  for (const bool of_heads : {false, true}) {
    Assignment axes = Split();
    Case test = Base(axes);
    test.specs.key = test.specs.value =
        of_heads ? Spec{{"dp"}, {"tp"}, {}, {}} : Spec{{}, {"dp"}, {}, {}};
    const exec::SimMesh mesh(test.mesh);
    exec::Machine machine(mesh);
    const exec::OperationOutcome out = test.operation->run(
        machine, MakeProblem(test), test.specs, test.settings);
    CAPTURE(of_heads);
    REQUIRE(out.unsupported);
    CHECK(out.unsupported->message ==
          std::string("the latent is split over `") + (of_heads ? "tp" : "dp") +
              "`, which split the query's batch or heads");
  }
}

// Every device slices the ids from an unsharded copy, whatever their spec is.
TEST_CASE("segment ids of latent attention are not resharded") {
  Case test = Base(Split());
  test.features.segments = true;
  test.specs.query_segments = test.specs.key_segments = {{"sp"}, {}};
  const CaseResult result = RunCase(test);
  CHECK_MESSAGE(result.status == Status::kPass, result.reason);
}

TEST_CASE("a latent row has the sizes given") {
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

TEST_CASE("faults of the absorbed form are detected") {
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

TEST_CASE("what latent attention cannot run is refused") {
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
