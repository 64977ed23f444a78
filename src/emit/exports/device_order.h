// The devices of a mesh for formats whose readers would number them otherwise.
#ifndef SHARDC_EMIT_EXPORTS_DEVICE_ORDER_H_
#define SHARDC_EMIT_EXPORTS_DEVICE_ORDER_H_

#include <cstdint>
#include <vector>

#include "model/mesh.h"

namespace shardc::exports {

// The device numbers in row-major order of the mesh. Empty if they are 0, 1, 2,
// and so on, which readers assume: a mesh of one slice.
std::vector<int64_t> DeviceOrder(const Mesh& mesh);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_DEVICE_ORDER_H_
