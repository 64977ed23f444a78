// Chooses a mesh for a number of devices if none is given.
#ifndef SHARDC_CLI_PICKED_MESH_H_
#define SHARDC_CLI_PICKED_MESH_H_

#include <optional>
#include <string>

#include "cli/command.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "suggest/choice.h"
#include "suggest/mesh.h"

namespace shardc::cli {

struct MeshFlags {
  std::string memory, batch, sequence = "8192", per_host = "8", profile;
};
Options MeshChoice(MeshFlags& flags);

// Returns the mesh in the form that `--mesh` accepts: `dp:2,tp:4`.
std::string MeshWords(const Mesh& mesh);

struct PickedMesh {
  Mesh mesh;  // empty if `refused` is true
  bool refused = false;
};
// Prints the best candidates and returns the best mesh. If the model fits on no
// mesh, or if the roles of parameters are unknown, so that the times of meshes
// are not known, adds a finding and sets `refused` (exit status 1). Returns
// nullopt after a finding about an invalid option (exit status 2).
std::optional<PickedMesh> PickMesh(const MeshFlags& flags,
                                   const std::string& devices,
                                   const Manifest& manifest,
                                   const std::optional<ModelConfig>& model,
                                   const suggest::Preferences& preferences,
                                   const Common& common, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PICKED_MESH_H_
