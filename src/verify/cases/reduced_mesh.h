// A smaller mesh with the same axes.
#ifndef SHARDC_VERIFY_CASES_REDUCED_MESH_H_
#define SHARDC_VERIFY_CASES_REDUCED_MESH_H_

#include <cstdint>
#include <vector>

#include "model/mesh.h"

namespace shardc::verify {

// Attention is verified on at most this many devices, unless it runs at the
// sizes given.
inline constexpr int64_t kMostAttentionDevices = 8;

// Returns the mesh with its longest axes shortened until it has at most
// `most_devices`. Axes of several devices keep at least two.
Mesh ReducedMesh(const Mesh& mesh, int64_t most_devices);

// Returns smaller meshes to try one after another: first ReducedMesh, then,
// fewest devices first, those whose axes have lengths that halving leads to and
// which have at least `least_devices`. Empty if no such mesh has fewer devices
// than the one given.
std::vector<Mesh> ReducedMeshes(const Mesh& mesh, int64_t least_devices);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_REDUCED_MESH_H_
