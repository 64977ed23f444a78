// A partition spec: for each dimension the mesh axes that split it.
#ifndef SHARDC_MODEL_SPEC_H_
#define SHARDC_MODEL_SPEC_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardc {

class JsonWriter;

// The axes of one dimension, most significant first; empty: not sharded.
using AxisGroup = std::vector<std::string>;

// Shorter than a tensor's rank means the rest is unsharded; no entry at all
// is replicated. Trailing empty groups are kept as written.
using Spec = std::vector<AxisGroup>;

// `[["fsdp", "sp"], "tp", null]`: the spec as the plan's JSON has it, which
// is also how messages show it.
std::string SpecText(const Spec& spec);
std::string GroupText(const AxisGroup& group);  // `["fsdp", "sp"]`, `null`
void WriteSpec(JsonWriter& json, const Spec& spec);
void WriteGroup(JsonWriter& json, const AxisGroup& group);

// No axis at all.
bool IsReplicated(const Spec& spec);

}  // namespace shardc

#endif  // SHARDC_MODEL_SPEC_H_
