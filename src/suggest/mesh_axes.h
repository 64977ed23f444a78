// The axes of a mesh by what they parallelise.
#ifndef SHARDC_SUGGEST_MESH_AXES_H_
#define SHARDC_SUGGEST_MESH_AXES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/axis_rules.h"
#include "model/mesh.h"

namespace shardc::suggest {

// Sizes by purpose; 1 if the mesh has no such axis.
struct MeshAxes {
  int64_t dp = 1, fsdp = 1, ep = 1, tp = 1, sp = 1;
  AxisRules renamed;                // for axes with other names
  std::vector<std::string> unused;  // axes of unknown purpose
  int64_t devices() const { return dp * fsdp * ep * tp * sp; }
  // Devices that share one copy of the model.
  int64_t DevicesOfReplica() const { return devices() / dp; }
};

// Reads the purpose of each axis from its name; `model` and `data`, for
// example, are names that other systems give to tp and fsdp.
MeshAxes AxesOf(const Mesh& mesh);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_MESH_AXES_H_
