// A partition spec lists, for each dimension, the mesh axes that shard it.
#ifndef SHARDC_MODEL_SPEC_H_
#define SHARDC_MODEL_SPEC_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardc {

class JsonWriter;

// The axes of one dimension, most significant first; empty: unsharded.
using AxisGroup = std::vector<std::string>;

// Dimensions after the last entry are unsharded, and an empty spec is
// replicated. Trailing empty groups are kept as written.
using Spec = std::vector<AxisGroup>;

// Returns `[["fsdp", "sp"], "tp", null]`: the notation of plans and messages.
std::string SpecText(const Spec& spec);
// Returns the axes of a dimension; none where the spec is shorter.
AxisGroup AxesAt(const Spec& spec, size_t dim);
std::string GroupText(const AxisGroup& group);  // `["fsdp", "sp"]`, `null`
void WriteSpec(JsonWriter& json, const Spec& spec);
void WriteGroup(JsonWriter& json, const AxisGroup& group);

// Returns whether no dimension has an axis.
bool IsReplicated(const Spec& spec);

}  // namespace shardc

#endif  // SHARDC_MODEL_SPEC_H_
