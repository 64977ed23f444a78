// The sizes of the axes of a mesh, by the kind of parallelism for which each
// axis is used.
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
  AxisRules renamed;  // axis rules for axes with other names
  // Axes larger than 1 whose purpose is unknown, or for which another axis is
  // used already.
  std::vector<std::string> unused;
  int64_t devices() const { return dp * fsdp * ep * tp * sp; }
  // Returns how many devices together hold one copy of the model.
  int64_t DevicesOfReplica() const { return devices() / dp; }
};

// Reads the purpose of each axis from its name. For example, other systems call
// tp `model` and fsdp `data`.
MeshAxes AxesOf(const Mesh& mesh);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_MESH_AXES_H_
