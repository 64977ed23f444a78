// Runs the steps of small models of every family on one device and on meshes,
// and compares every value with the dense reference. This tests the kernels of
// the ops, the index at which each device's part starts, and the bytes sent.
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "meshes.h"
#include "step/build.h"
#include "step/graph_writer.h"
#include "step/lower.h"
#include "step/mlp_graph.h"
#include "step/program.h"
#include "step/small_models.h"
#include "step/validate.h"
#include "verify/step/prove.h"

namespace shardc::exec {
namespace {

using step::StepModel;

// Shards the first dimension that an axis divides of each parameter, over the
// axes tp and fsdp.
std::vector<Spec> SpecsOf(const StepModel& model, const step::Sizes& sizes,
                          const Mesh& mesh) {
  std::vector<Spec> out;
  for (const step::Parameter& parameter : model.graph.parameters) {
    const Shape shape = step::ShapeOf(model.graph, parameter.value, sizes);
    Spec spec(shape.size());
    size_t dim = 0;
    for (const MeshAxis& axis : mesh.axes) {
      if (axis.name != "tp" && axis.name != "fsdp") continue;
      while (dim < shape.size() && shape[dim] % axis.size != 0) ++dim;
      if (dim < shape.size()) spec[dim++] = {axis.name};
    }
    out.push_back(std::move(spec));
  }
  return out;
}

std::optional<step::Program> LoweredOn(const StepModel& model,
                                       const step::Sizes& sizes,
                                       const Mesh& mesh) {
  const step::LowerRequest request{.graph = &model.graph,
                                   .mesh = mesh,
                                   .sizes = sizes,
                                   .parameters = SpecsOf(model, sizes, mesh),
                                   .constraints = step::UsualConstraints()};
  step::Unsupported why;
  return step::Lower(request, why);
}

// Returns whether the program is valid at these sizes, so that all parts of a
// value have the same size.
bool Divides(const StepModel& model, const step::Program& program,
             const step::Sizes& sizes) {
  return step::Validate(model.graph, program, sizes).empty();
}

TEST_CASE("the steps of every family are the dense model's") {
  const Mesh one = MeshOf({{"dp", 1}});
  const std::vector<Mesh> meshes = {one, MeshOf({{"dp", 2}, {"tp", 2}}),
                                    MeshOf({{"fsdp", 2}, {"sp", 2}}),
                                    MeshOf({{"dp", 2}, {"ep", 2}})};
  std::vector<int64_t> proved(meshes.size(), 0);
  for (const step::Family& family : step::kFamilies) {
    const step::Described described = step::ModelOf(family);
    for (const Mode mode : {Mode::kTrain, Mode::kDecode}) {
      if (!step::HasMode(*described.description, &described.config, mode)) {
        continue;
      }
      StepModel model = step::Built(family, mode);
      if (mode == Mode::kTrain) {
        step::Differentiate(model.graph);
        step::AppendOptimizer(model.graph);
      }
      const step::Sizes sizes = step::RealSizes(model, 4, 6);
      const auto alone = LoweredOn(model, sizes, one);
      REQUIRE(alone.has_value());
      for (size_t i = 0; i < meshes.size(); ++i) {
        const auto program = LoweredOn(model, sizes, meshes[i]);
        if (!program || !Divides(model, *program, sizes)) continue;
        // Matmuls in float32 have another kernel.
        for (const Dtype dtype : {Dtype::kF64, Dtype::kF32}) {
          verify::StepCase test;
          test.graph = &model.graph;
          test.program = &*program;
          test.alone = &*alone;
          test.mesh = meshes[i];
          test.sizes = sizes;
          test.dtype = dtype;
          test.seed = 3;
          const verify::StepProof proof = verify::ProveStep(test);
          CAPTURE(family.pack);
          CAPTURE(mode);
          CAPTURE(i);
          CAPTURE(dtype);
          for (const verify::StepProblem& problem : proof.problems) {
            CHECK(problem.message == "");
          }
        }
        ++proved[i];
      }
    }
  }
  for (const int64_t count : proved) CHECK(count >= 40);
}

}  // namespace
}  // namespace shardc::exec
