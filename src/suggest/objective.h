// Estimates what specs cost one device in a training step, to compare specs:
// bytes held, bytes sent and floating-point operations.
#ifndef SHARDC_SUGGEST_OBJECTIVE_H_
#define SHARDC_SUGGEST_OBJECTIVE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "suggest/choice.h"
#include "suggest/dims.h"
#include "suggest/mesh_axes.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// Assumptions about the step and the machine.
struct Assumed {
  int64_t tokens = 8192;  // tokens in one data shard
  int64_t experts_per_token = 2;
  int64_t activation_bytes = 2;  // bytes of one element
  double flops = 989e12;         // per second, of an H100 in bfloat16
  double tensor_link = 450e9;    // bytes per second, within a host
  double data_link = 450e9;      // among the devices of the data axes
  double replica_link = 450e9;   // among copies of the model, over dp
};

// The number of parts into which axes of each purpose divide one dimension.
struct ShardedDim {
  int64_t data = 1, tensor = 1, expert = 1;
};

// Tensors of a parameter group that have the same sharding.
struct ShardedGroup {
  size_t group = 0;
  int64_t count = 0;
  std::vector<ShardedDim> dims;
  // The number of coordinates of an axis among which complete tensors are
  // distributed; 1 if each device has all. The axis is the tensor-parallel axis
  // if `placed_tensor` is set.
  int64_t placed = 1;
  bool placed_tensor = false;
};

ShardedGroup ShardedGroupOf(const Tree& tree, size_t group,
                            const Choice& choice);
std::vector<ShardedGroup> ShardedGroupsOf(const Tree& tree,
                                          const Choices& choices);
// Returns the shardings of a compiled plan in mode train. `tree` must be made
// of the plan's manifest.
std::vector<ShardedGroup> ShardedGroupsOf(const Tree& tree,
                                          const ModelDims& model_dims,
                                          const AxisRules& axes,
                                          const Plan& plan);

struct Costs {
  double memory = 0;    // bytes of the parameters
  double state = 0;     // with gradients and Adam moments, 16 bytes a parameter
  double data = 0;      // bytes sent over data axes
  double replicas = 0;  // sent over dp
  double tensor = 0;    // sent over the tensor parallel axis
  double experts = 0;   // sent by all_to_alls between experts
  double flops = 0;

  double traffic() const { return data + replicas + tensor + experts; }
  // Returns the estimated seconds. The traffic `data` and `replicas` overlaps
  // with computation; `tensor` and `experts` do not.
  double Seconds(const Assumed& assumed) const;
};

Costs CostOf(const Tree& tree, const ModelDims& model_dims,
             const MeshAxes& mesh, std::span<const ShardedGroup> pieces,
             const Assumed& assumed);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_OBJECTIVE_H_
