// Finds the role of each parameter of a model, such as q or down, from a
// description of the model family. Every parameter that the description does
// not skip must have exactly one role, and the shape that the role's dimensions
// require.
//
//   const auto roles = AssignRoles(description, formulas, manifest, findings);
//   roles->rows[role * layers + layer]  // the manifest's rows, by expert
#ifndef SHARDC_STEP_ROLES_H_
#define SHARDC_STEP_ROLES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "match/match.h"
#include "model/manifest.h"
#include "model/model_description.h"
#include "model/project.h"
#include "source/finding.h"
#include "source/size.h"
#include "step/lines.h"

namespace shardc::step {

inline constexpr int32_t kNoRole = -1;
inline constexpr int32_t kSkipped = -2;

struct TensorRole {
  int32_t role = kNoRole;  // index into the description's roles
  int32_t layer = -1;      // Counted through all stacks; -1 outside of layers.
  // -1 if the tensor does not belong to a single expert.
  int32_t expert = -1;
  // The dimension that counts the layers, if the tensor holds the parameters of
  // all scanned layers (`layer` is then -1). Otherwise -1.
  int stack_dim = -1;
  bool operator==(const TensorRole&) const = default;
};

enum class RoleFault : uint8_t {
  kNone,  // a tensor has no role
  // A tensor has two roles. Or a role has two tensors in a layer: one tensor
  // for all scanned layers, and one for this layer.
  kTwo,
  kShape,    // a tensor's shape differs from the role's dimensions
  kMissing,  // a layer lacks a role that it needs
  kUnused,   // no op uses a role
};

struct RoleProblem {
  RoleFault fault = RoleFault::kNone;
  // The tensor's row in the manifest; -1 if the problem concerns no tensor.
  int64_t tensor = -1;
  int32_t role = -1;
  std::string message = {};
  // The message without the tensor's name at its start.
  std::string predicate = {};
};

struct Roles {
  // The number of layers of all stacks together. The layers of stack 0 have the
  // lowest numbers, and the layers of an encoder (stack 1) follow.
  int64_t layers = 0;
  std::vector<int64_t> stack_layers = {};
  // The role of each tensor, indexed by row of the manifest.
  std::vector<TensorRole> tensors = {};
  // The tensors of each role, as rows of the manifest. The layer of a role
  // outside of layers is 0. The first index is role * layers + layer, and the
  // second index is the number of the expert. A row is -1 for an expert without
  // a tensor.
  std::vector<std::vector<int64_t>> rows = {};
  // The sizes of the description's dimensions; 0 for a dimension that no
  // parameter has or whose size is unknown.
  std::vector<int64_t> sizes = {};
  std::vector<RoleProblem> problems = {};

  bool InLayers(int32_t role) const { return in_layers[AsIndex(role)]; }
  const std::vector<int64_t>& RowsOf(int32_t role, int32_t layer) const {
    const int64_t at = InLayers(role) ? layer : 0;
    return rows[AsIndex(role * layers + at)];
  }
  int64_t BeginOf(size_t stack) const {
    return stack == 0 ? 0 : BeginOf(stack - 1) + stack_layers[stack - 1];
  }
  size_t StackOf(int64_t layer) const {
    size_t stack = 0;
    while (layer >= BeginOf(stack) + stack_layers[stack]) ++stack;
    return stack;
  }

  // Indexed by role: whether the role belongs to layers.
  std::vector<bool> in_layers = {};
  // Indexed by role: whether each expert has a separate tensor.
  std::vector<bool> by_expert = {};
  // Indexed by role: whether the role's condition `when` is true.
  std::vector<bool> exists = {};
};

// Assigns roles to all parameters. Parameters without a correct role are listed
// in `problems`. Reports errors and returns nullopt if, for example, a
// pattern, a formula or the number of layers is invalid. Without a
// configuration, sizes are inferred from shapes.
std::optional<Roles> AssignRoles(const ModelDescription& description,
                                 Formulas& formulas, const Manifest& manifest,
                                 Findings& findings);

// Returns a stored dimension as the description writes it: "n h", "(c+r)".
std::string DimText(const DescribedDim& dim);

// A role's pattern in RE2 syntax, and the numbers of its groups that match the
// layer and the expert.
struct RolePattern {
  std::string text;
  // The number of the group; 0 if there is no such group.
  int layer_group = 0, expert_group = 0;
};
RolePattern MakePattern(const std::string& text);

// Returns the pattern for the tensor that holds a role's parameters of all
// scanned layers. In the name of this tensor, the layer's number is absent or
// replaced by a word: layers/q or layers/block/q instead of layers/7/q.
// `separator` separates the parts of the names in the description. Returns an
// empty text if no separator follows the layer's number in `pattern`.
std::string ScannedPattern(const std::string& pattern, char separator);

// The numbers of the layer and of the expert in a name. A number is -1 if the
// pattern has no group for it, and INT32_MAX if it does not fit in 32 bits.
struct NameNumbers {
  int32_t layer = -1, expert = -1;
};
// Returns the numbers that the groups of `made`, which is the matcher's pattern
// `index`, match in a name.
NameNumbers NumbersIn(const Matcher& matcher, size_t index,
                      const RolePattern& made, std::string_view name,
                      char separator);

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

#endif  // SHARDC_STEP_ROLES_H_
