// Writes the mesh of a new project.
#ifndef SHARDC_CLI_PROJECT_MESH_H_
#define SHARDC_CLI_PROJECT_MESH_H_

#include <string>

#include "model/mesh.h"

namespace shardc::cli {

// Returns the text after `mesh:` in a project file, beginning with the space or
// the line break after the colon. The text is a string of axes and sizes. If
// the mesh has other properties, such as slices, it is a YAML mapping.
std::string MeshYaml(const Mesh& mesh);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PROJECT_MESH_H_
