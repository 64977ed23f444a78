// Finds the role of each parameter of a model, such as q or down, from a
// description of the model family. Every parameter that the description does
// not skip must have exactly one role, and the shape that the role's dimensions
// require.
//
//   const auto roles = AssignRoles(description, formulas, manifest, findings);
//   roles->rows[role * layers + layer]  // the manifest's rows, by expert
#ifndef SHARDC_STEP_ROLES_H_
#define SHARDC_STEP_ROLES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/manifest.h"
#include "model/model_description.h"
#include "model/project.h"
#include "source/finding.h"
#include "source/index.h"
#include "step/formulas.h"

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

}  // namespace shardc::step

#endif  // SHARDC_STEP_ROLES_H_
