// The sharding of a plan over one axis, for systems that support tensor
// parallelism only.
#ifndef SHARDC_EMIT_EXPORTS_TENSOR_PARALLEL_H_
#define SHARDC_EMIT_EXPORTS_TENSOR_PARALLEL_H_

#include <optional>
#include <string>

#include "emit/exports/exporter.h"

namespace shardc::exports {

// Returns the axis that `--axis` names, which is `tp` by default. Returns
// nullopt and adds a finding if the mesh lacks the axis.
std::optional<std::string> TensorAxis(const Request& request,
                                      Findings& findings);

// The dimension that a mesh axis shards. If other axes shard this dimension
// first, a rank's part consists of several pieces. `stride` is the number of
// pieces: the product of the sizes of the other axes. SplitBy() returns nullopt
// if the axis shards no dimension.
struct Split {
  int64_t dim = 0;
  int64_t stride = 1;
};
std::optional<Split> SplitBy(const Mesh& mesh, const std::string& axis,
                             const Spec& spec);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_TENSOR_PARALLEL_H_
