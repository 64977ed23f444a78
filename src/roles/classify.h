// Finds a parameter's role from the parameter's name, and corrects the role by
// the parameter's shape.
#ifndef SHARDC_ROLES_CLASSIFY_H_
#define SHARDC_ROLES_CLASSIFY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/dtype.h"
#include "model/manifest.h"
#include "roles/role.h"

namespace shardc {

struct ParameterRole {
  // What the parameter itself does, such as kBias for `q_proj.bias` and
  // kAdapterDown for `q_proj.lora_A.weight`.
  Role role = Role::kOther;
  // What the parameter's module does, such as kQuery for `q_proj.bias` and for
  // `q_proj.lora_A.weight`.
  Role module_role = Role::kOther;
  Leaf leaf = Leaf::kOther;
  Confidence confidence = Confidence::kNone;  // how sure `module_role` is
  bool expert = false;  // whether a part of the name is a word for experts
  bool counted_expert = false;  // whether each expert is a separate tensor
  // Whether a part of the name is a word for shared experts, which every token
  // uses.
  bool shared_expert = false;
  bool attention = false;  // whether a part of the name is a word for attention
  // Whether the parameter is in GPT-2's Conv1D, whose `weight` is [in, out].
  bool conv1d = false;
  // Whether the last dimension holds the packed values of one quantised block.
  bool packed_blocks = false;
  // True if the last two dimensions are [in, out], and false if they are [out,
  // in]; nullopt if that is unknown. The name of the leaf gives the first
  // value. If the sizes show another order, they replace this value later
  // (roles/orientation.h).
  std::optional<bool> in_first;
  // The name with `?` in place of the part that names the role; the unchanged
  // name if there is no such part. The weights of `q_proj` and `k_proj` in one
  // block have the same sibling path.
  std::string sibling_path;
  // The path without the leaf. A weight has the same path as its bias and
  // scale.
  std::string module_path;
  // The path of the attention or feed-forward block. In attention, it ends with
  // the first part that names attention: `layers.0.self_attn`. Elsewhere it
  // ends before the part that names the role: `layers.0.mlp` for
  // `layers.0.mlp.up_proj.weight`.
  std::string block_path;
};

// Finds the role from the name, in which parts that are numbers must be
// replaced by `*`. Words with less confidence than `least` are ignored. `rank`
// is the rank of the parameter's shape; -1 if the shape is unknown.
ParameterRole Classify(std::string_view name, char separator,
                       Confidence least = Confidence::kSure, int rank = -1);

// What is known about a matrix: the sizes of its two sides, in elements, and
// its place in the model.
struct MatrixSizes {
  int64_t first = 0;
  int64_t last = 0;
  int64_t width = 0;  // the model's width if a side has this size; otherwise 0
  // Whether the side that is not the width is the size of the vocabulary.
  bool vocabulary = false;
  // Whether the name shows that the parameter is in a layer. Also true if the
  // names of the model have none of the words that the program knows
  // (roles/role.h), because roles then follow from sizes only.
  bool in_layers = false;
};

// Returns the role, corrected by the sizes. A router with too many outputs
// becomes an up projection, or unknown if neither side is the model's width. A
// square matrix is neither an embedding table nor an output head. A rectangular
// matrix of unknown role, with the model's width on one side, becomes an
// embedding if its other side is the vocabulary. Otherwise it becomes a
// projection if it is in a layer.
Role RefineBySizes(Role role, const MatrixSizes& sizes);

// OutDim() and InDim() return the index of the output and of the input
// dimension of a matrix. Both return -1 if the orientation is unknown or the
// rank is below 2. Leading dimensions count experts or layers. The output
// dimension of a bias is its last one, and its input dimension is -1.
int OutDim(const ParameterRole& role, int rank);
int InDim(const ParameterRole& role, int rank);

// Returns whether the leaf of the name is a weight or a kernel.
bool IsWeight(const ParameterRole& role);

// Returns whether one number of this type may hold several weights. The stored
// tensor then has fewer elements than the weight.
bool MayPack(Dtype dtype);

// Returns whether weights of this type have scales: packed weights, and those
// of at most 8 bits.
bool IsQuantised(Dtype dtype);

// Returns how many elements of a dimension share a scale, if `size` elements
// have `scales` scales: 128 for 4096 elements and 32 scales. The result is the
// smallest power of two that divides the elements into as many blocks as there
// are scales. If no power of two does, the result is size / scales, provided
// that the division is exact. Otherwise it is 1. It is also 1 if there is no
// scale, or if each element has its own.
int64_t BlockOf(int64_t size, int64_t scales);

// The share of a model's bytes up to which matrices of unknown role are usual:
// a pooler, a projector between towers. Statements about the entire model hold
// in spite of them.
constexpr double kMostUnknownRoles = 0.1;

// Returns whether the name is that of the projection out of a state-space
// mixer, such as `layers.*.mixer.out_proj.weight`, which has no heads.
bool IsOutOfMixer(std::string_view name, char separator);

// Returns whether a parameter is a matrix in each layer and has no known role.
// `dims` are the dimensions that do not count scanned layers. A parameter with
// taps, such as the kernel of a convolution, shows by its shape what it is.
bool IsUnknownMatrix(std::string_view name, char separator,
                     const ParameterRole& role, const Shape& shape,
                     std::span<const int> dims);

}  // namespace shardc

#endif  // SHARDC_ROLES_CLASSIFY_H_
