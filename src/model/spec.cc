#include "model/spec.h"

#include <algorithm>

#include "model/sub_axis.h"
#include "source/json_writer.h"

namespace shardc {

namespace {

void WriteAxes(JsonWriter& json, const AxisGroup& group) {
  if (group.empty()) {
    json.Null();
  } else if (group.size() == 1) {
    json.String(group[0]);
  } else {
    json.Array(group);
  }
}

}  // namespace

void WriteGroup(JsonWriter& json, const AxisGroup& group) {
  // Nearly all groups have no sub-axis, and plans write very many groups.
  if (HasSubAxis(group)) {
    WriteAxes(json, JoinedGroup(group));
  } else {
    WriteAxes(json, group);
  }
}

void WriteSpec(JsonWriter& json, const Spec& spec) {
  json.BeginArray();
  for (const AxisGroup& group : spec) WriteGroup(json, group);
  json.EndArray();
}

AxisGroup AxesAt(const Spec& spec, size_t dim) {
  return dim < spec.size() ? spec[dim] : AxisGroup{};
}

std::string GroupText(const AxisGroup& group) {
  return JsonText([&](JsonWriter& json) { WriteGroup(json, group); });
}

std::string SpecText(const Spec& spec) {
  return JsonText([&](JsonWriter& json) { WriteSpec(json, spec); });
}

bool IsReplicated(const Spec& spec) {
  return std::all_of(spec.begin(), spec.end(),
                     [](const AxisGroup& group) { return group.empty(); });
}

}  // namespace shardc
