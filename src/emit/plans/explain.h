// Writes the explanation of one parameter's layout, for `shardc explain`. It
// shows the rules that were tried and, for each mode, how the names in the spec
// were resolved, how the spec was corrected, and the bytes.
#ifndef SHARDC_EMIT_PLANS_EXPLAIN_H_
#define SHARDC_EMIT_PLANS_EXPLAIN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/mesh.h"
#include "model/mesh_layout.h"
#include "plan/compile.h"
#include "plan/plan.h"
#include "source/sink.h"

namespace shardc {

// Returns the explanation as text. `param` is an index into the plan's
// parameters. If a device is given, the part of the parameter that the device
// holds is printed too, except for a tensor with the layers of several stages.
// Modes with the same text share a heading.
std::string ExplainText(const Compiled& compiled, size_t param,
                        const std::optional<DevicePlace>& device = {});
void WriteExplainJson(const Compiled& compiled, size_t param, Sink& out,
                      const std::optional<DevicePlace>& device = {});

class JsonWriter;

// Returns `device 5: dp=0 fsdp=1 tp=1, process 0`. If the mesh has several
// slices, the text also states the slice and the device's position in the mesh,
// because plans and checkpoints number devices by position.
std::string PlaceText(const Mesh& mesh, const DevicePlace& place);
// Writes {"device", "position", "coordinates": {"dp": 0}, "process", "slice"}.
void WritePlace(JsonWriter& json, const Mesh& mesh, const DevicePlace& place);

// For each dimension, the ranges of indices that a device holds: the first
// index, and the index after the last one. They are equal if the device holds
// nothing. There is one range for each of the dimension's parts
// (model/legal_sizes.h). SlicesOf returns nullopt if the shape is unknown or
// the spec is illegal.
using Slices = std::vector<std::vector<std::pair<int64_t, int64_t>>>;
std::optional<Slices> SlicesOf(const Mesh& mesh, const DevicePlace& place,
                               const TensorType& type, const DimParts& parts,
                               const ModeLayout& mode);
// Returns how axes split a dimension that they do not divide: `50257, which
// "tp" splits into 8 shards of at most 6283, the last of 6276`.
std::string UnevenText(const Mesh& mesh, const AxisGroup& axes, int64_t size);
// Returns `[0:512, 1024:2048]`; `[0:2+4:6, 0:2]` with two parts.
std::string SlicesText(const Slices& slices);
// Writes [[0, 512], [1024, 2048]]; [[[0, 2], [4, 6]], [0, 2]] with two parts.
void WriteSlices(JsonWriter& json, const std::optional<Slices>& slices);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_EXPLAIN_H_
