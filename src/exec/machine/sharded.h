// Scatters and gathers tensors over the simulated mesh, reshards them, and
// checks that their shards have every element.
#ifndef SHARDC_EXEC_MACHINE_SHARDED_H_
#define SHARDC_EXEC_MACHINE_SHARDED_H_

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/machine/agreement.h"
#include "exec/machine/buffer.h"
#include "exec/machine/collectives.h"
#include "exec/machine/machine.h"

namespace shardc::exec {

// A tensor with one buffer for each device. A device holds elements [i L, (i +
// 1) L) of every dimension, where i is the device's index along the dimension's
// axes and L = size / parts. The tensor is replicated over axes that the spec
// does not name.
struct ShardedTensor {
  Shape shape;  // shape of the unsharded tensor
  Dtype dtype = Dtype::kF32;
  Spec spec;        // one entry per dimension
  PerDevice local;  // indexed by device id, all of the same shape
};

// Returns the spec with empty entries appended until it has `rank` entries.
// Returns a longer spec unchanged.
Spec PadSpec(Spec spec, size_t rank);

// Returns nullopt if the tensor can have the spec, else the reason. Reasons are
// an axis that the mesh lacks or that occurs twice, too many entries, and a
// dimension whose size is not a multiple of its number of shards.
std::optional<LayoutError> CheckLayout(const SimMesh& mesh, const Shape& shape,
                                       const Spec& spec);

// LocalShape returns the shape of every shard. LocalStart returns the global
// index of the first element of a device's shard. The layout must be legal.
Shape LocalShape(const SimMesh& mesh, const Shape& shape, const Spec& spec);
Shape LocalStart(const SimMesh& mesh, const Shape& shape, const Spec& spec,
                 int device);

// Returns the devices that hold each shard. A shard's key is the global index
// of its first element.
std::map<Shape, std::vector<int>> Holders(const SimMesh& mesh,
                                          const Shape& shape, const Spec& spec);

// Returns the tensor `global` sharded by `spec`, which must be legal.
ShardedTensor Scatter(const SimMesh& mesh, const Buffer& global, Spec spec);
// Returns a tensor of `shape`, sharded by `spec`. Every device that this
// process holds gets a copy of the shard `local`. The arrays of the other
// devices get the same shape and no elements.
ShardedTensor OnEveryDevice(const SimMesh& mesh, const Shape& shape,
                            const Spec& spec, const Buffer& local);
// Gives the arrays of all devices that other processes hold the shape of a
// shard and no elements.
void ShapeElsewhere(const SimMesh& mesh, ShardedTensor& tensor);
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
