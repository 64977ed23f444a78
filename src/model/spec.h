// A partition spec lists, for each dimension, the mesh axes that shard it.
#ifndef SHARDC_MODEL_SPEC_H_
#define SHARDC_MODEL_SPEC_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardc {

class JsonWriter;

// The axes that shard one dimension, the most significant first. An empty group
// means that the dimension is unsharded.
using AxisGroup = std::vector<std::string>;

// The axes of each dimension. Dimensions after the last entry are unsharded, so
// an empty spec means replicated. Empty groups at the end are kept as written.
using Spec = std::vector<AxisGroup>;

// Returns the spec in the notation of plans and messages, such as `[["fsdp",
// "sp"], "tp", null]`.
std::string SpecText(const Spec& spec);
// Returns the axes of dimension `dim`. Returns an empty group if the spec has
// no entry for the dimension.
AxisGroup AxesAt(const Spec& spec, size_t dim);
// Returns `["fsdp", "sp"]`, or `null` for an empty group.
std::string GroupText(const AxisGroup& group);
void WriteSpec(JsonWriter& json, const Spec& spec);
void WriteGroup(JsonWriter& json, const AxisGroup& group);

// Returns true if the spec has no axis in any dimension.
bool IsReplicated(const Spec& spec);

}  // namespace shardc

#endif  // SHARDC_MODEL_SPEC_H_
