// The size of each kind of parallelism on a mesh: data, fully sharded data,
// tensor, sequence and expert parallelism.
#ifndef SHARDC_SUGGEST_MESH_AXES_H_
#define SHARDC_SUGGEST_MESH_AXES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/axis_rules.h"
#include "model/mesh.h"

namespace shardc::suggest {

// The sizes of the axes by kind of parallelism. The size is 1 if the mesh has
// no axis of the kind.
struct MeshAxes {
  int64_t dp = 1, fsdp = 1, ep = 1, tp = 1, sp = 1;
  // Axis rules for axes whose names are not dp, fsdp, ep, tp or sp.
  AxisRules renamed;
  // The names of axes larger than 1 that are not used: the kind of parallelism
  // is unknown, or another axis already has it.
  std::vector<std::string> unused;
  // The names of axes larger than 1 that are for pipeline stages.
  std::vector<std::string> stages;
  int64_t devices() const { return dp * fsdp * ep * tp * sp; }
  // Returns the number of devices that together hold one copy of the model.
  int64_t DevicesOfReplica() const { return devices() / dp; }
};

// Infers the kind of parallelism of each axis from its name. For example, other
// systems call tp `model` and fsdp `data`.
MeshAxes AxesOf(const Mesh& mesh);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_MESH_AXES_H_
