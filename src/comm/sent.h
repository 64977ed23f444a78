// Counts the elements that each device sends when a tensor is resharded.
#ifndef SHARDC_COMM_SENT_H_
#define SHARDC_COMM_SENT_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "model/manifest.h"
#include "model/mesh.h"
#include "model/spec.h"

namespace shardc {

// A spec on a mesh, and a function that returns a device's coordinates in the
// mesh.
struct Sharding {
  const Mesh& mesh;
  const Spec& spec;
  std::function<std::vector<int64_t>(int64_t device)> coordinates;
};

// Returns the number of elements that each device sends. If several devices
// hold the same block, they take turns in sending it, in ascending order of
// their numbers. Both meshes must have the same number of devices. Shards may
// be uneven (model/shard_range.h).
std::vector<int64_t> CountSent(const Sharding& from, const Sharding& to,
                               const Shape& shape);

}  // namespace shardc

#endif  // SHARDC_COMM_SENT_H_
