// Finds meshes that have the axes of the user's mesh and fewer devices, so that
// cases can be simulated.
#ifndef SHARDC_VERIFY_CASES_REDUCED_MESH_H_
#define SHARDC_VERIFY_CASES_REDUCED_MESH_H_

#include <cstdint>
#include <vector>

#include "model/mesh.h"

namespace shardc::verify {

// The number of devices to which ReducedMeshes reduces a mesh for the
// verification of attention. A mesh with many axes, or a run with many
// processes, keeps more devices.
inline constexpr int64_t kMostAttentionDevices = 8;

// Returns the mesh with its longest axes shortened until it has at most
// `most_devices` devices. Axes with more than one device keep at least two
// devices, so the result may have more than `most_devices`.
Mesh ReducedMesh(const Mesh& mesh, int64_t most_devices);

// Returns at most 24 smaller meshes, in the order in which they should be
// tried. The first is ReducedMesh(mesh, least_devices), which may have fewer
// than `least_devices` devices. All other meshes have repeatedly shortened axes
// and at least `least_devices` devices. They are ordered by ascending number of
// devices. Returns an empty list if no such mesh has fewer devices than `mesh`.
std::vector<Mesh> ReducedMeshes(const Mesh& mesh, int64_t least_devices);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_REDUCED_MESH_H_
