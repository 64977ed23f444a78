// Finds meshes with a given number of devices that suit a model. Meshes on
// which the model fits come first, sorted by time. The meshes within 1 % of the
// fastest mesh are sorted by their number of axes, and then by the bytes that a
// device holds. Meshes on which the model does not fit come last, sorted by
// these bytes.
#ifndef SHARDC_SUGGEST_MESH_H_
#define SHARDC_SUGGEST_MESH_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/mesh.h"
#include "model/project.h"
#include "plan/plan.h"
#include "suggest/choose.h"
#include "suggest/dims.h"
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

// Assumptions about the step and the machine.
struct Assumed {
  int64_t tokens = 8192;  // tokens in one data shard
  int64_t experts_per_token = 2;
  int64_t activation_bytes = 2;  // bytes of one element of an activation
  // Floating-point operations per second: the peak of an H100 in bfloat16.
  double flops = 989e12;
  // Bytes per second among the devices of the tensor-parallel axis.
  double tensor_link = 450e9;
  // Bytes per second among the devices of the data axes.
  double data_link = 450e9;
  // Bytes per second among the copies of the model, over dp.
  double replica_link = 450e9;
};

// The numbers of parts into which data axes, tensor-parallel axes and expert
// axes divide one dimension.
struct ShardedDim {
  int64_t data = 1, tensor = 1, expert = 1;
};

// Tensors of a parameter group that have the same sharding.
struct ShardedGroup {
  // The index of the parameter group, and the number of its tensors that have
  // this sharding.
  size_t group = 0;
  int64_t count = 0;
  std::vector<ShardedDim> dims;
  // The number of coordinates over which complete tensors, such as experts, are
  // distributed; 1 if they are not distributed. The coordinates are those of
  // the tensor-parallel axis if `placed_tensor` is set.
  int64_t placed = 1;
  bool placed_tensor = false;
};

ShardedGroup ShardedGroupOf(const Tree& tree, size_t group,
                            const Choice& choice);
std::vector<ShardedGroup> ShardedGroupsOf(const Tree& tree,
                                          const Choices& choices);
// Returns the shardings that a compiled plan has in mode train. `tree` must
// have been made from the plan's manifest.
std::vector<ShardedGroup> ShardedGroupsOf(const Tree& tree,
                                          const ModelDims& model_dims,
                                          const AxisRules& axes,
                                          const Plan& plan);

struct Costs {
  double memory = 0;  // bytes of the parameters that a device holds
  // Bytes of weights, gradients and Adam moments that a device holds: 16 bytes
  // for each parameter.
  double state = 0;
  double data = 0;      // bytes sent over fsdp, sp and ep
  double replicas = 0;  // bytes sent over dp, to reduce gradients
  double tensor = 0;    // bytes sent over the tensor-parallel axis
  double experts = 0;   // bytes that all_to_alls send to and from experts
  // Floating-point operations of a device.
  double flops = 0;

  double traffic() const { return data + replicas + tensor + experts; }
  // Returns the estimated seconds of a step. The transfers of `data` and
  // `replicas` overlap with computation; those of `tensor` and `experts` do
  // not.
  double Seconds(const Assumed& assumed) const;
};

Costs CostOf(const Tree& tree, const ModelDims& model_dims,
             const MeshAxes& mesh, std::span<const ShardedGroup> pieces,
             const Assumed& assumed);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_MESH_H_
