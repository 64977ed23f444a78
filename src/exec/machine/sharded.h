// Scatters and gathers tensors over the simulated mesh, reshards them, and
// checks that their shards have every element.
#ifndef SHARDC_EXEC_MACHINE_SHARDED_H_
#define SHARDC_EXEC_MACHINE_SHARDED_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "exec/machine/layout.h"
#include "exec/machine/machine.h"

namespace shardc::exec {

// Returns the tensor `global` sharded by `spec`, which must be legal.
ShardedTensor Scatter(const SimMesh& mesh, const Buffer& global, Spec spec);
// Returns an error if two replicas differ in bits, or if a buffer does not have
// the shape that the layout requires.
std::optional<LayoutError> CheckReplicas(const SimMesh& mesh,
                                         const ShardedTensor& tensor);
// Returns the unsharded tensor. If CheckReplicas returns an error, sets `why`
// to the error and returns nullopt.
std::optional<Buffer> Gather(const SimMesh& mesh, const ShardedTensor& tensor,
                             LayoutError& why);

// Reshards a tensor to another legal layout. The devices that hold a shard take
// turns in sending it to the devices that lack it. If elements are sent, the
// ledger records one collective:
// - an all_to_all if an axis moves from one dimension to another,
// - else an all_gather if every dimension only loses or gains trailing axes,
// - else a ppermute.
// Tensors without elements are not recorded.
ShardedTensor Reshard(Machine& machine, const ShardedTensor& tensor, Spec spec,
                      std::string_view what);
// Like Reshard, but without the machine's ReshardSeam, which tests replace.
ShardedTensor RunReshard(Machine& machine, const ShardedTensor& tensor,
                         const Spec& spec, std::string_view what);
struct ReshardSeam {
  std::function<ShardedTensor(Machine&, const ShardedTensor&, const Spec&,
                              std::string_view)>
      run = RunReshard;
};

// Returns an I32 tensor whose elements are their own row-major offsets.
Buffer UniqueIds(const Shape& shape);
// Checks a tensor that was filled with UniqueIds. Every element must be on the
// devices that the layout requires, and occur as often as there are replicas.
// Returns nullopt if the tensor passes.
std::optional<LayoutError> CheckCoverage(const SimMesh& mesh,
                                         const ShardedTensor& tensor);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_SHARDED_H_
