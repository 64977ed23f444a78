// Writes a mesh as text and JSON: the device numbers in row-major order, the
// devices of each process, and the data-parallel and model-parallel ranks of
// each process.
#ifndef SHARDC_EMIT_PLANS_INPUT_TEXT_H_
#define SHARDC_EMIT_PLANS_INPUT_TEXT_H_

#include <string>

#include "model/axis_rules.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "source/sink.h"

namespace shardc {

// The largest number of devices for which the JSON has the grid. For a larger
// mesh, the JSON has null.
inline constexpr int64_t kListedDevices = 65536;
// The largest number of devices of a mesh whose ranks are listed.
inline constexpr int64_t kRankedDevices = 1 << 20;

// Returns the numbers of devices and processes, the axes that are not of type
// auto or span slices, and the mesh of hosts if there are several hosts. If
// `ranks` is true, a line for each process is added.
std::string MeshDetailsText(const Mesh& mesh, const AxisRules& axes,
                            bool ranks);
// Returns the coordinates and the process of one device; 0 <= device <
// mesh.devices.
std::string MeshDeviceText(const Mesh& mesh, int64_t device);
void WriteMeshDeviceJson(const Mesh& mesh, int64_t device, Sink& out);

// Writes the mesh as a plan does, with further members. "host_mesh" is the
// shape of the part of the mesh that one process has. Processes divide the
// first axis first: of the mesh [2, 8, 4], each of 16 processes has [1, 1, 4],
// because 16 is 2 (all of the first axis) times 8 (all of the second).
// "host_mesh" is null if the processes do not divide the first axes in this
// way. "grid" has the device numbers, nested by axis, or null above
// kListedDevices. If `ranks` is true, "ranks" is written too: an entry for each
// process, or null above kRankedDevices.
void WriteMeshGridJson(const Mesh& mesh, const AxisRules& axes, bool ranks,
                       Sink& out);

// Returns the parameters and totals as text. Tensors of the same shape and
// dtype whose names differ only in numbers, such as the tensors of layers,
// share a line with their count.
std::string ManifestText(const Manifest& manifest);
// Writes shardc.manifest/v1, with one parameter per line.
void WriteManifestJson(const Manifest& manifest, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_INPUT_TEXT_H_
