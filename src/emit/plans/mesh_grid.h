// A mesh as people and programs see it: the device grid in row-major order,
// each process's devices, ranks.
#ifndef SHARDC_EMIT_PLANS_MESH_GRID_H_
#define SHARDC_EMIT_PLANS_MESH_GRID_H_

#include <string>

#include "model/axis_rules.h"
#include "model/mesh.h"
#include "source/sink.h"

namespace shardc {

// Grids of more devices are counted, not drawn.
inline constexpr int64_t kDrawnDevices = 1024;
inline constexpr int64_t kListedDevices = 65536;
// Ranks are listed for meshes of up to so many.
inline constexpr int64_t kRankedDevices = 1 << 20;

// Axes, host mesh, and the grid: the last two axes longer than 1 are rows
// and columns, one block for each coordinate of those before. `ranks` adds a
// line per process.
std::string MeshGridText(const Mesh& mesh, const AxisRules& axes, bool ranks);
// Where one device stands, instead of the grid; 0 <= device < mesh.devices.
std::string MeshDeviceText(const Mesh& mesh, int64_t device);
void WriteMeshDeviceJson(const Mesh& mesh, int64_t device, Sink& out);

// The plan's mesh with "host_mesh" (null when processes cannot be taken from
// the leading axes), "grid" (device numbers nested by axis, null when there
// are too many) and, asked for, "ranks" (null as well).
void WriteMeshGridJson(const Mesh& mesh, const AxisRules& axes, bool ranks,
                       Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_MESH_GRID_H_
