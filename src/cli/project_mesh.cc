// Writes a mesh as a short text if it has only axes and their sizes. Otherwise
// writes the keys of a mesh file, indented below `mesh`:
//
//   fsdp:8,tp:4           ->   "fsdp:8,tp:4"
//   two slices over dp    ->   axes: ..., dcn: {dp: 2}
#include "cli/project_mesh.h"

#include "cli/picked_mesh.h"
#include "devices/profiles.h"
#include "emit/plans/rules_file.h"

namespace shardc::cli {
namespace {

// Returns the value that the key `device` gets in a mesh file, as YAML: the
// name of a device profile such as `h100`, or the memory, such as `{memory:
// 1024B}`. Returns an empty text if neither is known.
std::string DeviceYaml(const Device& device) {
  std::string out;
  if (!device.profile.empty()) {
    const DeviceProfile* const profile = FindDeviceProfile(device.profile);
    if (profile != nullptr && device.memory_bytes == profile->DeviceMemory()) {
      return device.profile;
    }
    out = "profile: " + device.profile;
  }
  if (device.memory_bytes) {
    if (!out.empty()) out += ", ";
    out += "memory: " + std::to_string(*device.memory_bytes) + "B";
  }
  return out.empty() ? "" : "{" + out + "}";
}

}  // namespace

std::string MeshYaml(const Mesh& mesh) {
  Mesh sizes;
  sizes.devices = mesh.devices;
  for (const MeshAxis& axis : mesh.axes) {
    sizes.axes.push_back({.name = axis.name, .size = axis.size});
  }
  std::string text = MeshFileYaml(mesh);
  const std::string device = mesh.device ? DeviceYaml(*mesh.device) : "";
  if (device.empty() && text == MeshFileYaml(sizes)) {
    return " \"" + MeshWords(mesh) + "\"\n";
  }
  if (!device.empty()) text += "device: " + device + "\n";
  std::string out = "\n";
  while (!text.empty()) {
    const size_t end = text.find('\n') + 1;
    out += "      " + text.substr(0, end);
    text.erase(0, end);
  }
  return out;
}

}  // namespace shardc::cli
