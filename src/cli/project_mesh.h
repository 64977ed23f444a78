// Writes the mesh of a new project.
#ifndef SHARDC_CLI_PROJECT_MESH_H_
#define SHARDC_CLI_PROJECT_MESH_H_

#include <string>

#include "model/mesh.h"

namespace shardc::cli {

// Returns the value of `mesh` in a project file, from the space or the line
// break after the key on: the text of the axes or, if the mesh has more than
// sizes, a mapping with all of it.
std::string MeshYaml(const Mesh& mesh);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PROJECT_MESH_H_
