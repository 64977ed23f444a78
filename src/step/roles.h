// Finds the role of each parameter of a model in a description. Every parameter
// that the description does not skip must have exactly one role, and the shape
// that the role's dimensions require.
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
  int32_t layer = -1;      // counted through all stacks
  int32_t expert = -1;     // -1: not the tensor of a single expert
  // The dimension that counts the layers, if this tensor has the parameters of
  // all scanned layers (its `layer` is then -1); otherwise -1.
  int stack_dim = -1;
  bool operator==(const TensorRole&) const = default;
};

enum class RoleFault : uint8_t {
  kNone,  // a tensor has no role
  // A tensor has two roles. Or two tensors have the same role in a layer: one
  // tensor of all layers, and one of a single layer.
  kTwo,
  kShape,    // a tensor's shape differs from the role's dimensions
  kMissing,  // a layer lacks a role that it needs
  kUnused,   // no op uses a role
};

struct RoleProblem {
  RoleFault fault = RoleFault::kNone;
  int64_t tensor = -1;  // row of the manifest; -1: none
  int32_t role = -1;
  std::string message = {};
  std::string predicate = {};  // the message after the tensor's name
};

struct Roles {
  // The number of layers of all stacks together. The first stack is the model's
  // own, and its layers come first.
  int64_t layers = 0;
  std::vector<int64_t> stack_layers = {};
  std::vector<TensorRole> tensors = {};  // indexed by row of the manifest
  // The rows of the manifest, indexed by role * layers + layer and then by
  // expert. Roles outside of layers use layer 0. A row is -1 for an expert
  // without a tensor.
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

  std::vector<bool> in_layers = {};  // indexed by role
  // Indexed by role: whether each expert has a tensor of its own.
  std::vector<bool> by_expert = {};
  std::vector<bool> exists = {};  // by role: whether its `when` holds
};

// Assigns roles. Problems of the parameters are in `problems`. Returns nullopt
// after findings, for example about the description's patterns and formulas or
// the number of layers. Without a configuration, sizes are inferred from
// shapes.
std::optional<Roles> AssignRoles(const ModelDescription& description,
                                 Formulas& formulas, const Manifest& manifest,
                                 Findings& findings);

}  // namespace shardc::step

#endif  // SHARDC_STEP_ROLES_H_
