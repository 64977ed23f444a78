// Meshes and lists of axes for the tests of this room.
#ifndef SHARDC_TESTS_EXEC_MESH_FIXTURE_H_
#define SHARDC_TESTS_EXEC_MESH_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "exec/machine/random.h"
#include "exec/machine/sharded.h"

namespace shardc::exec {

inline SimMesh SimMeshOf(
    const std::vector<std::pair<std::string, int64_t>>& axes) {
  Mesh mesh;
  for (const auto& [name, size] : axes) {
    mesh.axes.push_back({name, size, AxisType::kAuto});
    mesh.devices *= size;
  }
  return SimMesh(std::move(mesh));
}

// Returns all meshes of three axes with sizes 1 to 4.
inline std::vector<SimMesh> SmallMeshes() {
  std::vector<SimMesh> out;
  for (int64_t a = 1; a <= 4; ++a) {
    for (int64_t b = 1; b <= 4; ++b) {
      for (int64_t c = 1; c <= 4; ++c) {
        out.push_back(SimMeshOf({{"a", a}, {"b", b}, {"c", c}}));
      }
    }
  }
  return out;
}

// Returns every list of distinct axes of the mesh, in every order.
inline std::vector<AxisGroup> AxisLists(const SimMesh& mesh) {
  std::vector<AxisGroup> out = {{}};
  for (size_t i = 0; i < out.size(); ++i) {
    for (const MeshAxis& axis : mesh.mesh().axes) {
      AxisGroup longer = out[i];
      if (std::find(longer.begin(), longer.end(), axis.name) != longer.end()) {
        continue;
      }
      longer.push_back(axis.name);
      out.push_back(std::move(longer));
    }
  }
  return out;
}

// Returns a buffer in which all elements differ and are exact floats.
inline Buffer Counting(const Shape& shape, Dtype dtype = Dtype::kF32) {
  Buffer out = Buffer::Zeros(shape, dtype);
  for (size_t i = 0; i < out.real.size(); ++i) {
    out.real[i] = static_cast<float>(i);
  }
  for (size_t i = 0; i < out.integers.size(); ++i) {
    out.integers[i] = static_cast<int32_t>(i);
  }
  return out;
}

inline Buffer Normal(const Shape& shape, uint64_t seed) {
  Buffer out = Buffer::Zeros(shape, Dtype::kF32);
  for (size_t i = 0; i < out.real.size(); ++i) {
    out.real[i] = static_cast<float>(Random(seed).Normal(i));
  }
  return out;
}

}  // namespace shardc::exec

#endif  // SHARDC_TESTS_EXEC_MESH_FIXTURE_H_
