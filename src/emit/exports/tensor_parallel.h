// One axis of a plan alone, as systems see it that know tensor parallelism
// and nothing else.
#ifndef SHARDC_EMIT_EXPORTS_TENSOR_PARALLEL_H_
#define SHARDC_EMIT_EXPORTS_TENSOR_PARALLEL_H_

#include <optional>
#include <string>

#include "emit/exports/exporter.h"

namespace shardc::exports {

// The axis that `--axis` names, `tp` otherwise; nothing and a finding where
// the mesh has none of it.
std::optional<std::string> TensorAxis(const Request& request,
                                      Findings& findings);

// The dimension that the axis splits, and into how many interleaved pieces it
// finds it: the axes before it in the group.
struct Split {
  int64_t dim = 0;
  int64_t stride = 1;
};
std::optional<Split> SplitBy(const Mesh& mesh, const std::string& axis,
                             const Spec& spec);

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_TENSOR_PARALLEL_H_
