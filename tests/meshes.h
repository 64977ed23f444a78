// Meshes of tests.
#ifndef SHARDC_TESTS_MESHES_H_
#define SHARDC_TESTS_MESHES_H_

#include <utility>
#include <vector>

#include "model/mesh.h"

namespace shardc {

// Returns a mesh with these axes. Its number of devices is the product of their
// sizes.
inline Mesh MeshOf(std::vector<MeshAxis> axes) {
  Mesh out;
  for (const MeshAxis& axis : axes) out.devices *= axis.size;
  out.axes = std::move(axes);
  return out;
}

}  // namespace shardc

#endif  // SHARDC_TESTS_MESHES_H_
