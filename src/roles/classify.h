// The role of a parameter, read from its name and refined by its sizes.
#ifndef SHARDC_ROLES_CLASSIFY_H_
#define SHARDC_ROLES_CLASSIFY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "roles/role.h"

namespace shardc {

struct ParameterRole {
  // What the parameter itself does: kBias for `q_proj.bias`, kAdapterDown for
  // `q_proj.lora_A.weight`.
  Role role = Role::kOther;
  // What its module does: kQuery for both.
  Role module_role = Role::kOther;
  Leaf leaf = Leaf::kOther;
  Confidence confidence = Confidence::kNone;  // of `module_role`
  bool expert = false;                        // below a part that names experts
  bool counted_expert = false;                // one tensor for each expert
  bool shared_expert = false;
  bool attention = false;      // below a part that names attention
  bool conv1d = false;         // GPT-2's Conv1D, whose `weight` is [in, out]
  bool packed_blocks = false;  // the last dimension holds one block's values
  // Whether the last two dimensions are [in, out]: first by the leaf's name,
  // later by sizes if they decide (roles/orientation.h). Empty if neither does.
  std::optional<bool> in_first;
  // The path with the part that names the role replaced by `?`: the projections
  // of one module share it.
  std::string sibling_path;
  // The path without the leaf: a weight and its bias or scale share it.
  std::string module_path;
  // The path of the attention or feed-forward block: up to the first part that
  // names attention, otherwise up to the part that names the role.
  std::string block_path;
};

// Reads a role from a name whose digit parts are `*`. Words of less confidence
// than `least` are ignored. `rank` is that of the parameter's shape, -1 if the
// shape is unknown.
ParameterRole Classify(std::string_view name, char separator,
                       Confidence least = Confidence::kSure, int rank = -1);

// Sizes of a matrix and of the model around it, in elements.
struct MatrixSizes {
  int64_t first = 0;
  int64_t last = 0;
  int64_t width = 0;        // of the model, 0 if neither side is it
  bool vocabulary = false;  // the side that is not the width counts tokens
  bool in_layers = false;   // or in a tree whose names have no known word
};

// The role after a look at sizes: a router that is too large is a projection, a
// square is no table, and a matrix of unknown name that has the model's width
// on one side is an embedding or a projection.
Role RefineBySizes(Role role, const MatrixSizes& sizes);

// The dimension that leaves (enters) a module, of a parameter of this rank.
// Leading dimensions are experts or layers. -1 if the orientation is unknown.
int OutDim(const ParameterRole& role, int rank);
int InDim(const ParameterRole& role, int rank);

bool IsWeight(const ParameterRole& role);  // a weight or kernel by its leaf

}  // namespace shardc

#endif  // SHARDC_ROLES_CLASSIFY_H_
