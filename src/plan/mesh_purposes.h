// Infers what the axes of a mesh are for from their names.
#ifndef SHARDC_PLAN_MESH_PURPOSES_H_
#define SHARDC_PLAN_MESH_PURPOSES_H_

#include <string>
#include <vector>

#include "model/axis_rules.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"

namespace shardc {

struct MeshPurposes {
  // Axis rules for axes whose names are not dp, fsdp, ep, tp or sp, such as
  // `tensor_parallel: model`.
  AxisRules renamed;
  // The names of axes larger than 1 that have no axis rule: those of pipeline
  // stages, such as `stage`, and those whose purpose is unknown.
  std::vector<std::string> stages, unknown;
};

// Infers the purpose of each axis from its name. For example, many systems call
// tp `model` and fsdp `data`.
MeshPurposes PurposesOf(const Mesh& mesh);

// Returns the section of a rules file that gives these axis rules, such as
// `axes: {tensor_parallel: model}`.
std::string AxesText(const AxisRules& axes);

// Returns whether the rules have the axis rule `kv_head: null` from a pack
// (rules inside the program). ChoosePackAxes() may remove this axis rule.
bool ChoosesByModel(const RuleSet& rules);

// Decides whether a pack with the axis rule `kv_head: null` replicates KV heads
// on this mesh. If the tensor-parallel axes have several devices and divide the
// model's number of KV heads, the axis rule is removed, and KV heads are
// sharded over these axes. Otherwise the axis rule is kept, or set again if a
// call for an earlier mesh has removed it. With `kv_replicate`, the rule is
// removed for any number of devices above 1, and the model's KV heads are set
// (FindKvHeads). Otherwise does nothing if the axis rule is not
// from a pack, if it names axes, or if `model` is null.
void ChoosePackAxes(RuleSet& rules, const ModelConfig* model, const Mesh& mesh);

}  // namespace shardc

#endif  // SHARDC_PLAN_MESH_PURPOSES_H_
