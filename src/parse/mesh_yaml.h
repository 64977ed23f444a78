// Reads a mesh from a YAML mapping in a mesh file or a project file.
#ifndef SHARDC_PARSE_MESH_YAML_H_
#define SHARDC_PARSE_MESH_YAML_H_

#include <cstdint>
#include <optional>

#include "model/mesh.h"
#include "yaml/read.h"

namespace shardc {

// Reads and completes a mesh. `devices` is the value of the flag --devices,
// which replaces the number of devices in the mapping. Returns nullopt after a
// finding.
std::optional<Mesh> ReadMeshNode(const YamlContext& context,
                                 const YamlNode& node,
                                 std::optional<int64_t> devices);

}  // namespace shardc

#endif  // SHARDC_PARSE_MESH_YAML_H_
