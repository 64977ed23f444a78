#include "emit/exports/tensor_parallel.h"

#include "emit/exports/view.h"

namespace shardc::exports {

std::optional<std::string> TensorAxis(const Request& request,
                                      Findings& findings) {
  const std::string name =
      request.options.axis.empty() ? "tp" : request.options.axis;
  if (!HasAxis(request.plan.mesh, "--axis", name, findings)) {
    return std::nullopt;
  }
  return name;
}

std::optional<Split> SplitBy(const Mesh& mesh, const std::string& axis,
                             const Spec& spec) {
  for (size_t d = 0; d < spec.size(); ++d) {
    Split split{static_cast<int64_t>(d)};
    for (const std::string& name : spec[d]) {
      if (name == axis) return split;
      split.stride *= mesh.SizeOf(name);
    }
  }
  return std::nullopt;
}

}  // namespace shardc::exports
