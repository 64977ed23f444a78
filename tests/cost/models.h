// Makes inputs of cost estimates: small ones by hand, and those of bundled
// models, which are compiled as in the program.
#ifndef SHARDC_TESTS_COST_MODELS_H_
#define SHARDC_TESTS_COST_MODELS_H_

#include <optional>
#include <string>
#include <vector>

#include "cost/inputs.h"

namespace shardc::cost {

// Returns a mesh of axes such as {{"dp", 64}}.
Mesh MeshOf(const std::vector<std::pair<std::string, int64_t>>& axes);
// Returns `count` equal parameters, with the spec padded to the rank.
ParamClass ClassOf(const std::string& name, Shape shape, Dtype dtype, Spec spec,
                   int64_t count = 1);
// Returns the inputs of training on a mesh whose batch is sharded over `batch`.
CostInputs TrainingOn(const Mesh& mesh, const AxisGroup& batch);

// Returns the cost inputs of a bundled model under a pack; fails the test if
// the model cannot be compiled. `manifest` as in testdata/models, `config` as
// in testdata/configs.
CostInputs BundledWork(const std::string& manifest, const std::string& config,
                       const std::string& mesh, Mode mode,
                       const std::string& axes = "");

}  // namespace shardc::cost

#endif  // SHARDC_TESTS_COST_MODELS_H_
