#include "suggest/choice.h"

#include <algorithm>
#include <utility>

#include "plan/mesh_purposes.h"

namespace shardc::suggest {

AxisPurpose PurposeOf(std::string_view logical_axis) {
  if (logical_axis == "FSDP" || logical_axis == "SP" || logical_axis == "EP") {
    return AxisPurpose::kData;
  }
  return logical_axis == "EXPERT" ? AxisPurpose::kExpert : AxisPurpose::kTensor;
}

int64_t PartsOf(const std::vector<AxisAssignment>& assigned) {
  int64_t parts = 1;
  for (const AxisAssignment& one : assigned) parts *= one.size;
  return parts;
}

int64_t PartsOf(const AxisSpec& spec) {
  int64_t parts = 1;
  for (const auto& dim : spec) parts *= PartsOf(dim);
  return parts;
}

bool IsReplicated(const AxisSpec& spec) {
  return std::all_of(spec.begin(), spec.end(),
                     [](const auto& dim) { return dim.empty(); });
}

// Reads the sizes of the axes by the purposes that their names state
// (plan/mesh_purposes.h):
//
//   data:8,model:4  ->  fsdp 8, tp 4
//
// The suggested file then has axis rules that map fsdp to `data` and tp to
// `model`.

MeshAxes AxesOf(const Mesh& mesh) {
  MeshAxes out;
  MeshPurposes purposes = PurposesOf(mesh);
  const std::pair<AxisRule, int64_t*> sizes[] = {
      {AxisRule::kDataParallel, &out.dp},
      {AxisRule::kFullyShardedDataParallel, &out.fsdp},
      {AxisRule::kTensorParallel, &out.tp},
      {AxisRule::kSequenceParallel, &out.sp},
      {AxisRule::kExpertParallel, &out.ep}};
  for (const auto& [rule, size] : sizes) {
    const std::string axis = purposes.renamed.Value(rule).axes.front();
    if (mesh.Find(axis)) *size = mesh.SizeOf(axis);
  }
  out.renamed = std::move(purposes.renamed);
  out.unused = std::move(purposes.unknown);
  out.stages = std::move(purposes.stages);
  return out;
}

}  // namespace shardc::suggest
