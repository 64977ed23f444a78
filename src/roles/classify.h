// Finds the role of a parameter, by its name and then by its sizes.
#ifndef SHARDC_ROLES_CLASSIFY_H_
#define SHARDC_ROLES_CLASSIFY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "roles/role.h"

namespace shardc {

struct ParameterRole {
  // What the parameter itself does, such as kBias for `q_proj.bias` and
  // kAdapterDown for `q_proj.lora_A.weight`.
  Role role = Role::kOther;
  // What the parameter's module does: kQuery for both of these examples.
  Role module_role = Role::kOther;
  Leaf leaf = Leaf::kOther;
  Confidence confidence = Confidence::kNone;  // of `module_role`
  bool expert = false;          // a part of the name names experts
  bool counted_expert = false;  // one tensor for each expert
  bool shared_expert = false;
  bool attention = false;      // below a part that names attention
  bool conv1d = false;         // GPT-2's Conv1D, whose `weight` is [in, out]
  bool packed_blocks = false;  // the last dimension holds one block's values
  // Whether the last two dimensions are [in, out]; nullopt if that is unknown.
  // The name of the leaf decides first, and later the sizes if they are clear
  // (roles/orientation.h).
  std::optional<bool> in_first;
  // The name with `?` in place of the part that names the role, if there is
  // such a part. The weights of `q_proj` and `k_proj` in one block have the
  // same sibling path.
  std::string sibling_path;
  // The path without the leaf, which a weight shares with its bias and scale.
  std::string module_path;
  // The path of the attention or feed-forward block. It ends with the first
  // part that names attention, as in `layers.0.self_attn`. Without such a part
  // before the part that names the role, it ends before the latter:
  // `layers.0.mlp` for `layers.0.mlp.up_proj.weight`.
  std::string block_path;
};

// Finds the role by the name, in which parts that are numbers are written as
// `*`. Words with less confidence than `least` are ignored. `rank` is the rank
// of the parameter's shape, or -1 if the shape is unknown.
ParameterRole Classify(std::string_view name, char separator,
                       Confidence least = Confidence::kSure, int rank = -1);

// The sizes of a matrix, in elements, and its place in the model.
struct MatrixSizes {
  int64_t first = 0;
  int64_t last = 0;
  int64_t width = 0;        // width of the model; 0 if no side equals it
  bool vocabulary = false;  // the side that is not the width counts tokens
  // Whether the name has a part that names layers. Also true if no name in the
  // model has a known word, because only sizes can then decide.
  bool in_layers = false;
};

// Returns the role, corrected by the sizes. A router with too many outputs
// becomes an up projection, or unknown if neither side is the model's width. A
// square matrix is neither an embedding table nor a head. A rectangular matrix
// of unknown role with the model's width on one side becomes an embedding if
// its other side counts tokens, or else a projection if it is in layers.
Role RefineBySizes(Role role, const MatrixSizes& sizes);

// OutDim() and InDim() return the output and the input dimension of a matrix of
// this rank, or -1 if its orientation is unknown or the rank is below 2.
// Leading dimensions count experts or layers. The output dimension of a bias is
// its last one, and its input dimension is -1.
int OutDim(const ParameterRole& role, int rank);
int InDim(const ParameterRole& role, int rank);

// Returns whether the leaf is a weight or kernel.
bool IsWeight(const ParameterRole& role);

}  // namespace shardc

#endif  // SHARDC_ROLES_CLASSIFY_H_
