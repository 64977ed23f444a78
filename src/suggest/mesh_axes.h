// The axes of a mesh, by the parallelism that they are used for.
#ifndef SHARDC_SUGGEST_MESH_AXES_H_
#define SHARDC_SUGGEST_MESH_AXES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/axis_rules.h"
#include "model/mesh.h"

namespace shardc::suggest {

// The sizes of axes by purpose; 1 if the mesh has no such axis.
struct MeshAxes {
  int64_t dp = 1, fsdp = 1, ep = 1, tp = 1, sp = 1;
  AxisRules renamed;                // for axes with other names
  std::vector<std::string> unused;  // axes without a purpose of their own
  int64_t devices() const { return dp * fsdp * ep * tp * sp; }
  // Returns how many devices share one copy of the model.
  int64_t DevicesOfReplica() const { return devices() / dp; }
};

// Reads the purpose of each axis from its name. For example, other systems call
// tp `model` and fsdp `data`.
MeshAxes AxesOf(const Mesh& mesh);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_MESH_AXES_H_
