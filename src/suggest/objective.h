// What a plan costs a device in a training step, as far as a choice between
// specs needs it: bytes held, bytes sent, operations.
#ifndef SHARDC_SUGGEST_OBJECTIVE_H_
#define SHARDC_SUGGEST_OBJECTIVE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "suggest/choose.h"
#include "suggest/dims.h"
#include "suggest/kinds.h"

namespace shardc::suggest {

// What is assumed of a step and of the machine.
struct Assumed {
  int64_t tokens = 8192;  // of one data shard
  int64_t experts_per_token = 2;
  int64_t activation_bytes = 2;  // of one number
  double flops = 989e12;         // a second: an H100's in bfloat16
  double tensor_link = 450e9;    // bytes a second, inside of a host
  double data_link = 450e9;      // among the devices of the data axes
  double replica_link = 450e9;   // among copies of the model, over dp
};

// Parts of one dimension by what the axes are for.
struct PieceDim {
  int64_t data = 1, tensor = 1, expert = 1;
};

// Tensors of a kind that are cut alike.
struct Piece {
  size_t kind = 0;
  int64_t count = 0;
  std::vector<PieceDim> dims;
  int64_t placed = 1;          // coordinates that share them
  bool placed_tensor = false;  // along tensor parallelism's axis
};

Piece PieceOf(const Tree& tree, size_t kind, const Choice& choice);
std::vector<Piece> PiecesOf(const Tree& tree, const Choices& choices);
// Of a compiled plan, in train; `tree` is of its manifest.
std::vector<Piece> PiecesOf(const Tree& tree, const Readings& readings,
                            const AxisRules& axes, const Plan& plan);

struct Costs {
  double memory = 0;    // of the parameters
  double state = 0;     // with gradients and Adam's moments: 16 bytes each
  double data = 0;      // sent over data axes
  double replicas = 0;  // sent over dp
  double tensor = 0;    // sent over tensor parallelism's
  double experts = 0;   // exchanged between experts
  double flops = 0;

  double traffic() const { return data + replicas + tensor + experts; }
  // Data traffic goes on while there is something to compute, the rest waits.
  double Seconds(const Assumed& assumed) const;
};

Costs CostOf(const Tree& tree, const Readings& readings, const MeshAxes& mesh,
             std::span<const Piece> pieces, const Assumed& assumed);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_OBJECTIVE_H_
