// In a pipeline, the optimizer sums the squared gradients of each rank and then
// adds the sums of all ranks. The norm and the update must equal those of a run
// on one rank.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "dense/step.h"
#include "source/size.h"
#include "step/build.h"
#include "step/graph_writer.h"
#include "step/program.h"
#include "step/small_models.h"

namespace shardc::step {
namespace {

StepModel Differentiated(const Family& family) {
  StepModel out = Built(family, Mode::kTrain);
  Differentiate(out.graph);
  return out;
}

dense::StepValues<double> ValuesOf(const StepModel& model) {
  const Sizes sizes = RealSizes(model, 2, 4);
  auto out = RandomInputs(model.graph, sizes, 4);
  dense::RunStep<double>(model.graph, sizes, Phase::kOptimizer, out);
  return out;
}

const std::vector<double>& DataOf(const dense::StepValues<double>& values,
                                  ValueId value) {
  return values[AsIndex(value)].data;
}

double SquaresOf(const StepModel& model,
                 const dense::StepValues<double>& values,
                 const std::vector<size_t>& parameters) {
  double out = 0;
  for (const size_t i : parameters) {
    const ValueId gradient = model.graph.gradients[i];
    if (gradient < 0) continue;
    for (const double x : DataOf(values, gradient)) out += x * x;
  }
  return out;
}

TEST_CASE("the norm of a pipeline is that of all of its ranks") {
  for (const size_t family : {0, 2, 5, 22}) {
    CAPTURE(family);
    StepModel one = Differentiated(kFamilies[family]);
    AppendOptimizer(one.graph);
    const auto want = ValuesOf(one);
    StepModel many = Differentiated(kFamilies[family]);
    // There are three ranks, and the second has no parameters.
    std::vector<NormPart> parts(3);
    for (size_t i = 0; i < many.graph.parameters.size(); ++i) {
      parts[i % 3 == 0 ? 0 : 2].parameters.push_back(i);
    }
    AppendOptimizer(many.graph, parts);
    const auto got = ValuesOf(many);
    CHECK(parts[1].sum == kNoValue);
    double all = 0;
    for (const size_t rank : {0, 2}) {
      REQUIRE(parts[rank].sum != kNoValue);
      const double sum = DataOf(got, parts[rank].sum)[0];
      CHECK(sum == doctest::Approx(SquaresOf(many, got, parts[rank].parameters))
                       .epsilon(1e-12));
      all += sum;
    }
    const double norm = DataOf(got, many.graph.gradient_norm)[0];
    CHECK(norm == doctest::Approx(std::sqrt(all)).epsilon(1e-12));
    CHECK(norm == doctest::Approx(DataOf(want, one.graph.gradient_norm)[0])
                      .epsilon(1e-12));
    REQUIRE(many.graph.updated.size() == one.graph.updated.size());
    for (size_t i = 0; i < many.graph.updated.size(); ++i) {
      CAPTURE(i);
      const ValueId own = many.graph.updated[i], other = one.graph.updated[i];
      REQUIRE((own == kNoValue) == (other == kNoValue));
      if (own == kNoValue) continue;
      const auto& left = DataOf(got, own);
      const auto& right = DataOf(want, other);
      REQUIRE(left.size() == right.size());
      for (size_t at = 0; at < left.size(); ++at) {
        CHECK(left[at] == doctest::Approx(right[at]).epsilon(1e-10));
      }
    }
  }
}

TEST_CASE("a step without gradients has no norm and no update") {
  StepModel model = Built(kFamilies[0], Mode::kTrain);
  Differentiate(model.graph);
  std::vector<NormPart> none(2);
  const size_t ops = model.graph.ops.size();
  AppendOptimizer(model.graph, none);
  CHECK(model.graph.ops.size() == ops);
  CHECK(model.graph.gradient_norm == kNoValue);
}

}  // namespace
}  // namespace shardc::step
