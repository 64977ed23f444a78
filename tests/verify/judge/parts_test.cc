#include "verify/judge/parts.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "exec/operations/all.h"
#include "model/layout.h"
#include "verify/cases/dense_inputs.h"
#include "verify/cases/grid.h"
#include "verify/cases/problem_data.h"

namespace shardc::verify {
namespace {

TEST_CASE("the reference in parts equals the reference of all rows at once") {
  for (const Layout layout : {Layout::kBthd, Layout::kBhtd}) {
    Case test;
    test.operation = &exec::kFlashAttention;
    test.layout = layout;
    test.mesh = MeshOf({{"dp", 2}});
    // 4.2 million elements of query, key and value: three parts of 9 rows.
    test.sizes = {9, 64, 512, 8, 2, 256, 128};
    test.features.causal = true;
    test.features.ragged = true;
    test.features.segments = true;
    test.features.mask = true;
    test.features.bias = true;
    test.features.bias_by_head = true;
    test.features.sinks_rank = 1;
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
