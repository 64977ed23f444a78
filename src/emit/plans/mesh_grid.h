// Writes a mesh as text and JSON: the device grid in row-major order, the
// devices of each process, ranks.
#ifndef SHARDC_EMIT_PLANS_MESH_GRID_H_
#define SHARDC_EMIT_PLANS_MESH_GRID_H_

#include <string>

#include "model/axis_rules.h"
#include "model/mesh.h"
#include "source/sink.h"

namespace shardc {

// The largest numbers of devices for which the grid is drawn in the text and
// listed in JSON. For a larger mesh, the text has the number of devices in
// place of the grid, and the JSON has null.
inline constexpr int64_t kDrawnDevices = 1024;
inline constexpr int64_t kListedDevices = 65536;
// The most devices of a mesh whose ranks are listed.
inline constexpr int64_t kRankedDevices = 1 << 20;

// Returns the axes, the mesh of hosts if there are several, and the grid of
// devices. The last two axes of size above 1 are the grid's rows and columns,
// and there is one block for each coordinate of the other axes. With `ranks`, a
// line per process is added.
std::string MeshGridText(const Mesh& mesh, const AxisRules& axes, bool ranks);
// Returns the place of one device instead of the grid; 0 <= device <
// mesh.devices.
std::string MeshDeviceText(const Mesh& mesh, int64_t device);
void WriteMeshDeviceJson(const Mesh& mesh, int64_t device, Sink& out);

// Writes the mesh as a plan does, with "host_mesh" (null if processes do not
// follow the leading axes), "grid" (device numbers nested by axis, null if
// there are too many) and, if `ranks`, "ranks" (null if there are too many).
void WriteMeshGridJson(const Mesh& mesh, const AxisRules& axes, bool ranks,
                       Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_MESH_GRID_H_
