// Meshes of a number of devices that hold a model, best first.
#ifndef SHARDC_SUGGEST_MESH_H_
#define SHARDC_SUGGEST_MESH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "model/mesh.h"
#include "model/project.h"
#include "suggest/choose.h"
#include "suggest/kinds.h"

namespace shardc::suggest {

struct MeshWish {
  int64_t devices = 1;
  int64_t memory = 0;    // bytes of one
  int64_t per_host = 8;  // devices that share the fast links
  int64_t sequence = 8192;
  std::optional<int64_t> batch;  // sequences of a step; else one a data shard
};

struct MeshOption {
  Mesh mesh;
  double bytes = 0;        // of the fullest device: states and activations
  double nanoseconds = 0;  // of a token, all devices together
  bool fits = false;       // in nine tenths of the memory
};

// Those that the model divides by. Empty: there is none.
std::vector<MeshOption> MeshesFor(const Tree& tree, const ModelConfig* model,
                                  const MeshWish& wish, const Wishes& wishes);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_MESH_H_
