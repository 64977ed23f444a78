// Tensors laid out over the simulated mesh, and the proof that a layout holds
// every element.
#ifndef SHARDC_EXEC_MACHINE_SHARDED_H_
#define SHARDC_EXEC_MACHINE_SHARDED_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/machine/buffer.h"
#include "exec/machine/collectives.h"
#include "exec/machine/machine.h"

namespace shardc::exec {

// What is wrong, in words and in places.
struct Complaint {
  std::string message;  // lower case, no final period
  std::string help;
  std::string axis;          // the axis at fault; may be empty
  std::vector<int> devices;  // concerned
  Shape position;            // the first one concerned, global
  // The input that is laid out illegally, and its dimension that does not
  // divide.
  std::string tensor;
  std::optional<size_t> dimension;
};

// Each device holds [i L, (i + 1) L) of every dimension, where i is its index
// along the dimension's axes and L = size / parts. Axes that the spec does
// not name replicate.
struct ShardedTensor {
  Shape shape;  // global
  Dtype dtype = Dtype::kF32;
  Spec spec;        // one entry per dimension
  PerDevice local;  // by device id, all of the same shape
};

// The spec with an entry for every dimension. Longer ones are kept.
Spec PadSpec(Spec spec, size_t rank);

// Why the tensor cannot be laid out so: an axis that the mesh lacks or that
// occurs twice, an entry too many, a dimension that does not divide.
std::optional<Complaint> CheckLayout(const SimMesh& mesh, const Shape& shape,
                                     const Spec& spec);

// For a legal layout: the shape of every shard, and where a device's begins.
Shape LocalShape(const SimMesh& mesh, const Shape& shape, const Spec& spec);
Shape LocalStart(const SimMesh& mesh, const Shape& shape, const Spec& spec,
                 int device);

// The spec must be legal.
ShardedTensor Scatter(const SimMesh& mesh, const Buffer& global, Spec spec);
// Where two replicas differ in bits, or a buffer's shape is not the layout's.
std::optional<Complaint> CheckReplicas(const SimMesh& mesh,
                                       const ShardedTensor& tensor);
// The global tensor; nothing, and a complaint, where replicas differ.
std::optional<Buffer> Gather(const SimMesh& mesh, const ShardedTensor& tensor,
                             Complaint& why);

// Whether every index of a dimension that `inner` gives a device lies in what
// `outer` gives it: exactly when `outer` is a prefix of `inner`.
bool SliceNests(const SimMesh& mesh, int64_t size, const AxisGroup& inner,
                const AxisGroup& outer, int device);

// Moves a tensor to another legal layout. Those who hold a shard take turns in
// sending it to the devices that lack it. Charged as all_gather where axes only
// leave, as all_to_all where one changes its dimension, as ppermute where axes
// only change order or are exchanged for others; free where a device has all it
// needs.
ShardedTensor Reshard(Machine& machine, const ShardedTensor& tensor, Spec spec,
                      std::string_view what);
// The move as it stands; Reshard goes through the machine's ReshardSeam.
ShardedTensor RunReshard(Machine& machine, const ShardedTensor& tensor,
                         const Spec& spec, std::string_view what);
struct ReshardSeam {
  std::function<ShardedTensor(Machine&, const ShardedTensor&, const Spec&,
                              std::string_view)>
      run = RunReshard;
};

// An I32 tensor whose elements are their own row-major offsets.
Buffer UniqueIds(const Shape& shape);
// Every element of `tensor`, which was filled with UniqueIds, is where the
// layout says, and each replica group holds each exactly once.
std::optional<Complaint> CheckCoverage(const SimMesh& mesh,
                                       const ShardedTensor& tensor);

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_SHARDED_H_
