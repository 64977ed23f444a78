// The longest axis is halved again and again, so that every axis remains:
//
//   fsdp 16, tp 4, at most 8 devices  ->  fsdp 2, tp 4
#include "verify/cases/reduced_mesh.h"

#include <algorithm>

namespace shardc::verify {

Mesh ReducedMesh(const Mesh& mesh, int64_t most_devices) {
  Mesh out = mesh;
  const auto devices = [&] {
    int64_t n = 1;
    for (const MeshAxis& axis : out.axes) n *= axis.size;
    return n;
  };
  while (devices() > most_devices) {
    auto longest = std::max_element(
        out.axes.begin(), out.axes.end(),
        [](const MeshAxis& a, const MeshAxis& b) { return a.size < b.size; });
    if (longest->size <= 2) break;
    // Even lengths are halved, so that dimensions still divide.
    longest->size = longest->size % 2 == 0 ? longest->size / 2 : 2;
  }
  out.devices = devices();
  out.processes = 1;
  out.slices = 1;
  out.dcn.clear();
  return out;
}

}  // namespace shardc::verify
