#include "emit/exports/device_order.h"

#include <algorithm>

#include "model/mesh_layout.h"

namespace shardc::exports {

std::vector<int64_t> DeviceOrder(const Mesh& mesh) {
  std::vector<int64_t> out;
  if (mesh.slices == 1) return out;
  for (int64_t position = 0; position < mesh.devices; ++position) {
    out.push_back(PlaceOf(mesh, position).device);
  }
  if (std::is_sorted(out.begin(), out.end())) out.clear();
  return out;
}

}  // namespace shardc::exports
