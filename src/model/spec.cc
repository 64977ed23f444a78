#include "model/spec.h"

#include <algorithm>

#include "source/wording.h"

namespace shardc {

std::string GroupText(const AxisGroup& group) {
  if (group.empty()) return "null";
  if (group.size() == 1) return JsonString(group[0]);
  std::string out = "[";
  for (size_t i = 0; i < group.size(); ++i) {
    if (i > 0) out += ", ";
    AppendJsonString(out, group[i]);
  }
  return out + "]";
}

std::string SpecText(const Spec& spec) {
  std::string out = "[";
  for (size_t i = 0; i < spec.size(); ++i) {
    if (i > 0) out += ", ";
    out += GroupText(spec[i]);
  }
  return out + "]";
}

bool IsReplicated(const Spec& spec) {
  return std::all_of(spec.begin(), spec.end(),
                     [](const AxisGroup& group) { return group.empty(); });
}

}  // namespace shardc
