// The mesh for a number of devices, where none is given.
#ifndef SHARDC_CLI_PICKED_MESH_H_
#define SHARDC_CLI_PICKED_MESH_H_

#include <optional>
#include <string>

#include "cli/command.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "suggest/choose.h"
#include "suggest/mesh.h"

namespace shardc::cli {

struct MeshFlags {
  std::string memory = "80GiB", batch, sequence = "8192", per_host = "8";
};
Options MeshChoice(MeshFlags& flags);

// `dp:2,tp:4`, as `--mesh` takes it.
std::string MeshWords(const Mesh& mesh);

// The best, after those that were looked at are told. Nothing, with findings,
// where a flag cannot be read or no mesh holds the model: a usage error has
// status 2, the other 1, which is told by `none_fits`.
struct PickedMesh {
  Mesh mesh;
  bool none_fits = false;
};
std::optional<PickedMesh> PickMesh(const MeshFlags& flags,
                                   const std::string& devices,
                                   const Manifest& manifest,
                                   const std::optional<ModelConfig>& model,
                                   const suggest::Wishes& wishes,
                                   const Common& common, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PICKED_MESH_H_
