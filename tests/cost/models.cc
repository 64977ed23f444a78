#include "cost/models.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <utility>

#include "parse/mesh.h"
#include "target/open.h"

namespace shardc::cost {

Mesh MeshOf(const std::vector<std::pair<std::string, int64_t>>& axes) {
  Mesh out;
  for (const auto& [name, size] : axes) {
    out.axes.push_back({name, size, AxisType::kAuto});
    out.devices *= size;
  }
  return out;
}

ParamClass ClassOf(const std::string& name, Shape shape, Dtype dtype, Spec spec,
                   int64_t count) {
  ParamClass out;
  out.name = name;
  spec.resize(shape.size());
  out.spec = std::move(spec);
  out.type.shape = std::move(shape);
  out.type.dtype = dtype;
  out.role = Classify(name, '.');
  out.count = count;
  const int rank = static_cast<int>(out.type.shape->size());
  if (out.role.module_role != Role::kNorm &&
      out.role.module_role != Role::kEmbedding) {
    out.out_dim = OutDim(out.role, rank);
    out.in_dim = InDim(out.role, rank);
  }
  return out;
}

CostInputs TrainingOn(const Mesh& mesh, const AxisGroup& batch) {
  CostInputs out;
  out.mesh = mesh;
  for (Spec* spec : {&out.query, &out.key, &out.value, &out.output}) {
    spec->resize(4);
    (*spec)[0] = batch;
  }
  out.hidden_known = true;
  return out;
}

CostInputs BundledWork(const std::string& manifest, const std::string& config,
                       const std::string& mesh, Mode mode,
                       const std::string& axes) {
  const char* const root = std::getenv("SHARDC_SOURCE_ROOT");
  REQUIRE(root != nullptr);
  const std::string data = std::string(root) + "/testdata/";
  Target target;
  target.mesh.text = mesh;
  target.manifest = data + "models/" + manifest;
  if (!config.empty()) {
    target.model = data + "configs/" + config + ".config.json";
  }
  target.rules = {"auto"};
  Findings findings;
  OpenOptions options;
  options.policy.unmatched = UnmatchedPolicy::kReplicate;
  options.policy.illegal = IllegalPolicy::kDrop;
  auto opened = OpenTarget(target, options, findings);
  CAPTURE(manifest);
  REQUIRE(opened);
  auto model = opened->model;
  if (axes == "whole hidden") {
    opened->rules.axes.Set(AxisRule::kHiddenState, AxisValue{true, {}});
  }
  const auto compiled = CompileTarget(std::move(*opened), findings);
  REQUIRE(compiled != nullptr);
  return MakeCostInputs(*compiled, std::move(model), mode);
}

}  // namespace shardc::cost
