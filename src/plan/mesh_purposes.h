// Infers what the axes of a mesh are for from their names.
#ifndef SHARDC_PLAN_MESH_PURPOSES_H_
#define SHARDC_PLAN_MESH_PURPOSES_H_

#include <string>
#include <vector>

#include "model/axis_rules.h"
#include "model/mesh.h"

namespace shardc {

struct MeshPurposes {
  // Axis rules for axes whose names are not dp, fsdp, ep, tp or sp, such as
  // `tensor_parallel: model`.
  AxisRules renamed;
  // The names of axes larger than 1 that have no axis rule: those of pipeline
  // stages, such as `stage`, and those whose purpose is unknown or belongs to
  // another axis already.
  std::vector<std::string> stages, unknown;
};

// Infers the purpose of each axis from its name. For example, many systems call
// tp `model` and fsdp `data`.
MeshPurposes PurposesOf(const Mesh& mesh);

// Returns the section of a rules file that gives these axis rules, such as
// `axes: {tensor_parallel: model}`.
std::string AxesText(const AxisRules& axes);

}  // namespace shardc

#endif  // SHARDC_PLAN_MESH_PURPOSES_H_
