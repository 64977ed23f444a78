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
  std::string memory = "80GiB", batch, sequence = "8192", per_host = "8";
  std::string profile = "h100-sxm";
};
Options MeshChoice(MeshFlags& flags);

// Returns the mesh as `--mesh` accepts it: `dp:2,tp:4`.
std::string MeshWords(const Mesh& mesh);

// Returns the best mesh, after printing the candidates. Returns nullopt with
// findings if an option is invalid (exit status 2) or no mesh fits the model
// (exit status 1, `none_fits` is set).
struct PickedMesh {
  Mesh mesh;
  bool none_fits = false;
};
std::optional<PickedMesh> PickMesh(const MeshFlags& flags,
                                   const std::string& devices,
                                   const Manifest& manifest,
                                   const std::optional<ModelConfig>& model,
                                   const suggest::Preferences& preferences,
                                   const Common& common, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PICKED_MESH_H_
