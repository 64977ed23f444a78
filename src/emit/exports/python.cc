#include "emit/exports/python.h"

#include "source/json_writer.h"

namespace shardc::exports {

std::string PythonString(std::string_view text) { return JsonString(text); }

std::string PartitionSpecText(const Spec& spec) {
  std::string out;
  for (const AxisGroup& group : spec) {
    out += out.empty() ? "" : ", ";
    if (group.empty()) {
      out += "None";
      continue;
    }
    std::string names;
    for (const std::string& axis : group) {
      names += (names.empty() ? "" : ", ") + PythonString(axis);
    }
    out += group.size() == 1 ? names : "(" + names + ")";
  }
  return "P(" + out + ")";
}

std::string AxesText(const Mesh& mesh) {
  std::string out;
  for (const MeshAxis& axis : mesh.axes) {
    out += (out.empty() ? "" : ", ") + PythonString(axis.name) + ": " +
           std::to_string(axis.size);
  }
  return "{" + out + "}";
}

}  // namespace shardc::exports
