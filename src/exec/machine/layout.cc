// Computes the shape and the start of a device's shard from the device's index
// along the axes of each dimension. For example:
//
//   [6, 8] sharded over [[dp], [tp]] on dp=2 tp=2: device 1 holds [3, 4] from
//   row 0 and column 4
#include "exec/machine/layout.h"

#include <set>

#include "source/wording.h"

namespace shardc::exec {

Spec PadSpec(Spec spec, size_t rank) {
  if (spec.size() < rank) spec.resize(rank);
  return spec;
}

std::optional<LayoutError> CheckLayout(const SimMesh& mesh, const Shape& shape,
                                       const Spec& spec) {
  LayoutError why;
  if (spec.size() > shape.size()) {
    why.message =
        "the spec " + SpecText(spec) + " has " +
        Counted(static_cast<int64_t>(spec.size()), "entry", "entries") +
        " for rank " + std::to_string(shape.size());
    return why;
  }
  std::set<std::string> seen;
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    for (const std::string& axis : spec[dim]) {
      why.axis = axis;
      if (!mesh.Has(axis)) {
        why.message = "the mesh has no axis `" + axis + "`";
        why.help = "add it to the mesh, or take it out of the axis rules";
        return why;
      }
      if (!seen.insert(axis).second) {
        why.message = "axis `" + axis + "` occurs twice in " + SpecText(spec);
        why.help =
            "an axis splits one dimension of a tensor: take it out of the "
            "other's axis rule";
        return why;
      }
    }
    const int64_t parts = mesh.Parts(spec[dim]);
    if (shape[dim] % parts != 0) {
      why.axis = spec[dim].front();
      why.dimension = dim;
      why.message = "dimension " + std::to_string(dim) + " of " +
                    ShapeText(shape) + " does not divide into " +
                    std::to_string(parts) + " parts over " +
                    GroupText(spec[dim]);
      why.help =
          "split it over axes whose sizes divide it, or leave it unsharded";
      return why;
    }
  }
  return std::nullopt;
}

Shape LocalShape(const SimMesh& mesh, const Shape& shape, const Spec& spec) {
  Shape out = shape;
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    out[dim] /= mesh.Parts(spec[dim]);
  }
  return out;
}

Shape LocalStart(const SimMesh& mesh, const Shape& shape, const Spec& spec,
                 int device) {
  Shape out(shape.size(), 0);
  for (size_t dim = 0; dim < spec.size(); ++dim) {
    out[dim] =
        mesh.Index(device, spec[dim]) * (shape[dim] / mesh.Parts(spec[dim]));
  }
  return out;
}

std::map<Shape, std::vector<int>> Holders(const SimMesh& mesh,
                                          const Shape& shape,
                                          const Spec& spec) {
  std::map<Shape, std::vector<int>> out;
  for (int d = 0; d < mesh.devices(); ++d) {
    out[LocalStart(mesh, shape, spec, d)].push_back(d);
  }
  return out;
}

}  // namespace shardc::exec
