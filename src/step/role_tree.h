// The state that the functions called by AssignRoles share while they find the
// roles of a model's tensors.
#ifndef SHARDC_STEP_ROLE_TREE_H_
#define SHARDC_STEP_ROLE_TREE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/manifest.h"
#include "model/model_description.h"
#include "source/index.h"
#include "step/formulas.h"
#include "step/roles.h"

namespace shardc::step {

// The largest number of experts of a layer. The rows of a role are indexed by
// expert, so without a limit a single expert with a huge number would take
// memory for all numbers below it.
inline constexpr int64_t kMostExperts = 100000;

inline Shape WithoutDim(Shape shape, int dim) {
  shape.erase(shape.begin() + dim);
  return shape;
}

struct RoleTree {
  const ModelDescription& description;
  Formulas& formulas;
  const Manifest& manifest;
  Roles roles = {};
  // Indexed by stack: the number of layers before the scanned layers. Each of
  // them has its own tensors, such as one dense layer before a tower of layers
  // with experts.
  std::vector<int64_t> leading = {};

  size_t role_count() const { return description.roles.size(); }

  void Problem(RoleFault fault, int64_t tensor, int32_t role,
               std::string message) {
    roles.problems.push_back({fault, tensor, role, std::move(message), {}});
  }
  void ProblemOf(RoleFault fault, int64_t tensor, int32_t role,
                 std::string predicate) {
    roles.problems.push_back({fault, tensor, role,
                              NameOf(tensor) + " " + predicate,
                              std::move(predicate)});
  }
  std::string NameOf(int64_t tensor) const {
    return "`" + std::string(manifest.tensors[AsIndex(tensor)].name) + "`";
  }

  // Returns the dimensions that one tensor of a role has. The dimension of
  // experts is left out if each expert has its own tensor.
  std::span<const DescribedDim> Stored(int32_t role) const {
    const std::span<const DescribedDim> dims =
        description.roles[AsIndex(role)].dims;
    return roles.by_expert[AsIndex(role)] && !dims.empty() ? dims.subspan(1)
                                                           : dims;
  }
  const Shape* ShapeOf(int64_t tensor) const {
    const auto& type = manifest.TypeOf(manifest.tensors[AsIndex(tensor)]);
    return type.shape ? &*type.shape : nullptr;
  }
  // Returns the shape of one layer's parameter, or nullopt if it is unknown.
  std::optional<Shape> LayerShapeOf(int64_t tensor) const {
    const Shape* const shape = ShapeOf(tensor);
    if (shape == nullptr) return std::nullopt;
    const int dim = roles.tensors[AsIndex(tensor)].stack_dim;
    return dim < 0 ? *shape : WithoutDim(*shape, dim);
  }

  size_t StackOf(int32_t role) const {
    return description.roles[AsIndex(role)].stack;
  }
  // Returns whether a role exists in a layer, which is counted from the first
  // layer of its stack. The role's condition may depend on the layer.
  bool ExistsIn(size_t role, int64_t layer) const {
    const DescribedText& when = description.roles[role].when;
    if (!formulas.DependsOnLayer(when)) return roles.exists[role];
    formulas.SetLayer(layer);
    const bool out = formulas.Condition(when);
    formulas.SetLayer(-1);
    return out;
  }
  int64_t Experts(size_t role) const {
    size_t most = 0;
    for (int64_t layer = 0; layer < roles.layers; ++layer) {
      most = std::max(
          most,
          roles.rows[role * AsIndex(roles.layers) + AsIndex(layer)].size());
    }
    return static_cast<int64_t>(most);
  }

  // Returns the first tensor of a role, or -1 if no tensor has the role.
  int64_t FirstTensor(size_t role) const {
    const size_t begin = role * AsIndex(roles.layers);
    for (size_t i = begin; i < begin + AsIndex(roles.layers); ++i) {
      for (const int64_t row : roles.rows[i]) {
        if (row >= 0) return row;
      }
    }
    return -1;
  }

  // Adds a tensor to the rows of its role in a layer. The tensor of an expert
  // gets the expert's number as its index, which must be below kMostExperts. A
  // tensor that does not belong to a single expert is appended.
  void AddRow(size_t tensor, int64_t layer) {
    const TensorRole& at = roles.tensors[tensor];
    auto& rows = roles.rows[AsIndex(at.role * roles.layers + layer)];
    const size_t place = at.expert < 0 ? rows.size() : AsIndex(at.expert);
    if (rows.size() <= place) rows.resize(place + 1, -1);
    rows[place] = static_cast<int64_t>(tensor);
  }
};

}  // namespace shardc::step

#endif  // SHARDC_STEP_ROLE_TREE_H_
