// Declares tensors that are sharded over the simulated mesh, and computes which
// elements a device holds.
#ifndef SHARDC_EXEC_MACHINE_LAYOUT_H_
#define SHARDC_EXEC_MACHINE_LAYOUT_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exec/machine/buffer.h"
#include "exec/machine/collectives.h"
#include "exec/machine/mesh_sim.h"

namespace shardc::exec {

// An error in a layout or in another input of an operation, with the devices
// and the element that it concerns.
struct LayoutError {
  std::string message;  // starts in lower case, without a period
  std::string help;
  // The name of the axis that causes the error, or empty.
  std::string axis;
  std::vector<int> devices;  // the devices that the error concerns
  Shape position;  // global index of the first element that the error concerns
  // `tensor` is the name of the input with the error; it may be empty. If the
  // error is that axes do not divide a dimension's size, `dimension` is the
  // index of this dimension.
  std::string tensor;
  std::optional<size_t> dimension;
};

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

}  // namespace shardc::exec

#endif  // SHARDC_EXEC_MACHINE_LAYOUT_H_
