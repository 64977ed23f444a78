#include "verify/judge/run_case.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "exec/machine/machine.h"
#include "exec/operations/operation.h"
#include "model/axis_rules.h"
#include "verify/cases/grid.h"
#include "verify/cases/problem_data.h"

namespace shardc::verify {
namespace {

// Returns a case with 4.2 million elements of query, key and value: three parts
// of the 9 rows.
Case LargeCase(const exec::Operation& operation, Layout layout) {
  Case test;
  test.operation = &operation;
  test.layout = layout;
  test.mesh = MeshOf({{"one", 1}});
  test.sizes = {9, 64, 512, 8, 2, 256, 128};
  test.features.causal = true;
  test.features.ragged = true;
  test.features.segments = true;
  test.features.mask = true;
  test.features.bias = true;
  test.features.bias_by_head = true;
  test.features.sinks_rank = 1;
  return test;
}

TEST_CASE(
    "the output in parts has the bits of the output of all rows at once") {
  for (const exec::Operation* operation :
       {&exec::kFlashAttention, &exec::kVanilla}) {
    for (const Layout layout : {Layout::kBthd, Layout::kBhtd}) {
      const Case test = LargeCase(*operation, layout);
      const exec::AttentionProblem problem = MakeProblem(test);
      REQUIRE(HasParts(test, problem));
      REQUIRE(HasManyParts(problem));
      int runs = 0;
      const auto run =
          [&](const exec::AttentionProblem& of) -> std::optional<exec::Buffer> {
        ++runs;
        const exec::SimMesh mesh(test.mesh);
        exec::Machine machine(mesh);
        exec::OperationOutcome out =
            operation->run(machine, of, test.specs, test.settings);
        if (out.unsupported) return std::nullopt;
        return std::move(out.output.local[0]);
      };
      const auto parts = OutputInParts(test, problem, run);
      CHECK(runs == 3);
      const auto whole = run(problem);
      REQUIRE(whole);
      REQUIRE(parts);
      CHECK(exec::BitEqual(*parts, *whole));
    }
  }
}

TEST_CASE("an operation that one device cannot run has no output in parts") {
  const Case test = LargeCase(exec::kVanilla, Layout::kBthd);
  int runs = 0;
  const auto refuse =
      [&](const exec::AttentionProblem&) -> std::optional<exec::Buffer> {
    ++runs;
    return std::nullopt;
  };
  CHECK(!OutputInParts(test, MakeProblem(test), refuse));
  CHECK(runs == 1);
}

TEST_CASE("the reference in parts equals the reference of all rows at once") {
  for (const Layout layout : {Layout::kBthd, Layout::kBhtd}) {
    const Case test = LargeCase(exec::kFlashAttention, layout);
    const exec::AttentionProblem problem = MakeProblem(test);
    REQUIRE(HasParts(test, problem));
    const dense::Options options = OptionsOf(problem.options);
    const dense::Inputs in = InputsOf(test, problem);
    std::string why;
    const auto whole = dense::Attention(in, options, why);
    const auto parts = ReferenceInParts(test, problem, options, true, why);
    REQUIRE_MESSAGE(whole, why);
    REQUIRE_MESSAGE(parts, why);
    CHECK(parts->output.shape == whole->output.shape);
    CHECK(parts->output.data == whole->output.data);
    CHECK(parts->largest_logit == dense::LargestLogit(in, options));
  }
}

}  // namespace
}  // namespace shardc::verify
