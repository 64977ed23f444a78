// Chooses the sharding of every value of a program on a mesh, from the
// shardings of its inputs.
#ifndef SHARDC_PROGRAM_SHARDING_H_
#define SHARDC_PROGRAM_SHARDING_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "model/mesh.h"
#include "program/program.h"

namespace shardc::program {

// What an op does with a factor of its dimensions, in Shardy's words.
enum class FactorUse : uint8_t {
  kPass,    // each index is computed alone
  kSum,     // a reduction: devices have partial sums
  kMax,     // a reduction by maxima
  kMin,     // a reduction by minima
  kNeeded,  // need-replication: the op needs all indices on a device
};

struct OpFactor {
  int64_t size = 1;
  FactorUse use = FactorUse::kPass;
};

// The dimensions of an op's operands and results as products of the op's
// factors: a list of factors for each dimension, the outermost first. A
// dimension of size 1 has no factor.
struct OpRule {
  std::vector<OpFactor> factors;
  std::vector<std::vector<Numbers>> in, out;
};

// Returns the rule of an op. Ops with bodies have no rule of their own, and ops
// that nothing is known of need all indices of their operands.
OpRule RuleOf(const Program& program, const Op& op);

// A part of an operand's sharding that an op cannot use.
struct Gathered {
  size_t operand = 0;
  size_t dim = 0;
  AxisGroup axes;
  // Whether no rule of the op permits the axes there. Otherwise the axes shard
  // other dimensions of the op.
  bool needed = false;
};

// A reduce-scatter of a partial sum: each device gets the sums of its shard of
// a dimension only.
struct Scattered {
  size_t dim = 0;
  AxisGroup axes;

  bool operator==(const Scattered&) const = default;
};

struct OpSharding {
  // Of the operands and results with which devices run the op. A result that is
  // scattered afterwards has the scattered axes too (Sharding::specs).
  std::vector<Spec> in, out;
  // The axes over which the results are partial, and how they are combined,
  // but for those of `scattered`.
  std::vector<std::pair<AxisGroup, FactorUse>> reductions;
  // Run before `reductions`.
  std::vector<Scattered> scattered;
  std::vector<Gathered> gathered;
};

struct Sharding {
  std::vector<Spec> specs;  // of each value, one entry for each dimension
  std::unordered_map<const Op*, OpSharding> ops;
  // The axes over which values stay partial: the sum of two of them is reduced
  // once.
  std::unordered_map<ValueId, AxisGroup> partial;
};

// Returns whether a value is resharded once for all ops of a body that need it
// with the same spec. XLA does this, and PyTorch reshards it for each op.
bool SharesReshards(const Program& program);

// Returns whether the mesh has all axes of an op's constraint. Otherwise the
// constraint is not followed, and the result is sharded as the operand is.
bool FollowsConstraint(const Op& op, const Mesh& mesh);

// Chooses the sharding of each op in the order of the program. An op keeps the
// axes of its operands: of those that depend on data first, then of the larger
// ones. In a step of decoding, where weights are larger than activations, and
// without constraints, it keeps those of the larger ones. `inputs` has the
// sharding of each input. Its axes must divide the dimensions. The values of a
// manual region's body have no sharding. `sizes` is the same program with the
// sizes by which values are compared, or null if these are its own.
Sharding ShardProgram(const Program& program, const Mesh& mesh,
                      const std::vector<Spec>& inputs,
                      const Program* sizes = nullptr);

}  // namespace shardc::program

#endif  // SHARDC_PROGRAM_SHARDING_H_
