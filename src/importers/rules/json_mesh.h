// Reads a mesh from the JSON that `export hlo` writes.
#ifndef SHARDC_IMPORTERS_RULES_JSON_MESH_H_
#define SHARDC_IMPORTERS_RULES_JSON_MESH_H_

#include <optional>

#include "model/mesh.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc::imports {

// Reads a mesh such as {"axes": [{"name", "size"}, ...], "dcn": [...]}. Returns
// nullopt after a finding. If there is no list `axes`, the mesh has no axes.
std::optional<Mesh> JsonMesh(JsonValue value, Findings& findings);

}  // namespace shardc::imports

#endif  // SHARDC_IMPORTERS_RULES_JSON_MESH_H_
