// One device: where it stands in the mesh, and which part of a parameter is
// its own.
#ifndef SHARDC_EMIT_PLANS_DEVICE_SHARE_H_
#define SHARDC_EMIT_PLANS_DEVICE_SHARE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/mesh.h"
#include "model/mesh_layout.h"
#include "plan/plan.h"

namespace shardc {

class JsonWriter;

// `device 5: dp=0 fsdp=1 tp=1, process 0`; with several slices also its slice
// and its position, which plans and checkpoints count by.
std::string PlaceText(const Mesh& mesh, const DevicePlace& place);
// {"device", "position", "coordinates": {"dp": 0}, "process", "slice"}
void WritePlace(JsonWriter& json, const Mesh& mesh, const DevicePlace& place);

// First index and the one after the last, by dimension; nothing where shapes
// are not known or the spec is illegal. The first axis of a group is major.
using Slices = std::vector<std::pair<int64_t, int64_t>>;
std::optional<Slices> SlicesOf(const Mesh& mesh, const DevicePlace& place,
                               const ModeLayout& mode);
// `[0:512, 1024:2048]`
std::string SlicesText(const Slices& slices);
void WriteSlices(JsonWriter& json, const std::optional<Slices>& slices);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_DEVICE_SHARE_H_
