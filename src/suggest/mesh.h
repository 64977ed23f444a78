// Finds meshes with a given number of devices that suit a model. Meshes on
// which the model fits come first, sorted by time. The meshes within 1 % of the
// fastest mesh are sorted by their number of axes, and then by the bytes that a
// device holds. Meshes on which the model does not fit come last, sorted by
// these bytes.
#ifndef SHARDC_SUGGEST_MESH_H_
#define SHARDC_SUGGEST_MESH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "model/mesh.h"
#include "model/project.h"
#include "suggest/choice.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

struct MeshRequest {
  int64_t devices = 1;
  int64_t memory = 0;  // memory of one device, in bytes
  // The number of devices of a host. Only these have fast links to each other.
  int64_t per_host = 8;
  // The number of tokens of a sequence.
  int64_t sequence = 8192;
  // The number of sequences in a step; nullopt for one sequence per data shard.
  std::optional<int64_t> batch;
};

struct MeshOption {
  Mesh mesh;
  // The bytes of parameters, gradients, optimizer states and activations that a
  // device holds.
  double bytes = 0;
  // The time of a step, divided by the number of tokens of the whole batch.
  double nanoseconds = 0;
  bool fits = false;  // true: `bytes` <= 0.9 of a device's memory
};

// Returns the meshes of the axes dp, fsdp, ep and tp for which MisfitOf()
// reports no problem. The size of tp is at most `per_host`, and ep divides the
// number of experts. A mesh with dp only is not considered. The batch must be a
// multiple or a divisor of the number of data shards. The result may be empty.
std::vector<MeshOption> MeshesFor(const Tree& tree, const ModelConfig* model,
                                  const MeshRequest& request,
                                  const Preferences& preferences);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_MESH_H_
