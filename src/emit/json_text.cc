#include "emit/json_text.h"

#include "source/wording.h"

namespace shardc {

void AppendKey(std::string& out, std::string_view key) {
  AppendJsonString(out, key);
  out += ": ";
}

void AppendInteger(std::string& out, const std::optional<int64_t>& value) {
  out += value ? std::to_string(*value) : "null";
}

void AppendShape(std::string& out, const std::optional<Shape>& shape) {
  out += shape ? ShapeText(*shape) : "null";
}

void AppendDtype(std::string& out, const std::optional<Dtype>& dtype) {
  if (dtype) {
    AppendJsonString(out, DtypeName(*dtype));
  } else {
    out += "null";
  }
}

void AppendModes(std::string& out, std::span<const Mode> modes) {
  out += '[';
  for (size_t i = 0; i < modes.size(); ++i) {
    if (i > 0) out += ", ";
    AppendJsonString(out, ModeName(modes[i]));
  }
  out += ']';
}

void AppendMesh(std::string& out, const Mesh& mesh) {
  out += "{\"axes\": [";
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (i > 0) out += ", ";
    out += "{\"name\": ";
    AppendJsonString(out, mesh.axes[i].name);
    out += ", \"size\": " + std::to_string(mesh.axes[i].size);
    out += ", \"type\": ";
    AppendJsonString(out, AxisTypeName(mesh.axes[i].type));
    out += '}';
  }
  out += "], \"devices\": " + std::to_string(mesh.devices);
  if (mesh.processes != 1) {
    out += ", \"processes\": " + std::to_string(mesh.processes);
  }
  if (mesh.slices != 1) out += ", \"slices\": " + std::to_string(mesh.slices);
  if (!mesh.dcn.empty()) out += ", \"dcn\": " + ShapeText(mesh.dcn);
  out += '}';
}

}  // namespace shardc
