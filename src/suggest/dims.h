// Infers what each dimension of a parameter group counts: the model's width,
// heads, a feed-forward width, experts or layers. Also infers the units (such
// as the columns of a head) that sharding must not split.
#ifndef SHARDC_SUGGEST_DIMS_H_
#define SHARDC_SUGGEST_DIMS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/project.h"
#include "roles/classify.h"
#include "roles/layer_stacks.h"
#include "roles/orientation.h"
#include "suggest/parameter_groups.h"

namespace shardc::suggest {

// What a dimension of a parameter means.
enum class DimUse : uint8_t {
  // Never sharded: convolution taps, packed bytes, columns of a head.
  kUnsharded,
  kLayers,   // counts scanned layers; never sharded
  kExperts,  // counts experts
  kWidth,    // counts the model's width (hidden size)
  // The dimension that tensor parallelism usually shards: heads, a feed-forward
  // width or a vocabulary.
  kInner,
  kUnknown
};

struct Dim {
  DimUse use = DimUse::kUnknown;
  int64_t size = 1;
  int64_t block = 1;  // the size of a shard must be a multiple of this number
};

// Which matrices of the same module show the role of a parameter.
enum class Siblings : uint8_t {
  kNone,   // the role is by the parameter's own name and sizes
  kNames,  // the names of siblings, together with the sizes
  kSizes   // the sizes of siblings alone
};

// The role and the dimensions that were inferred for one parameter group.
struct InferredDims {
  ParameterRole by_name;
  // Whether the role follows from the user's program and not from the name.
  bool by_program = false;
  // Whether the program shows what each dimension counts.
  bool counted = false;
  // Whether the description of the model's family states the role or the heads.
  bool described = false;
  // The role that the name suggests, corrected where the sizes contradict it.
  Role role = Role::kOther;
  Siblings siblings = Siblings::kNone;
  // Whether siblings show that the inner side does not count columns of heads.
  bool feed_forward = false;
  // Whether only its sizes suggest that the matrix is a table of the
  // vocabulary.
  bool table_by_sizes = false;
  // Whether only its sizes suggest that a dimension counts experts.
  bool experts_by_sizes = false;
  // Whether nothing shows how many heads the projection has. It is then sharded
  // by heads only if its shards are complete for every possible number.
  bool heads_unknown = false;
  std::vector<Dim> dims;
  // Indices into `dims`. Each is -1 if there is no such dimension, or if it is
  // unknown which one it is. A weight matrix has two sides: `width` is the side
  // of the model's width, and `inner` is the other side, such as the heads.
  int inner = -1;    // usually sharded over the tensor-parallel axis
  int width = -1;    // counts the model's width
  int experts = -1;  // counts experts
  // The number of experts if each is a separate tensor.
  int64_t expert_count = 0;
  // The sizes of the two sides of the matrix, in elements. If heads and their
  // columns are two dimensions, the size of the side is their product. For
  // packed weights, the sizes are those after unpacking.
  int64_t width_size = 0;
  int64_t inner_size = 0;
  // The numbers that the size of the tensor-parallel axis has to divide. A
  // fused projection to 32 heads and 8 KV heads has {32, 8}. A fused gate-up
  // projection has the number of columns of one half.
  std::vector<int64_t> units;
  // For a bias, a scale or another vector, the index of the group of its
  // weight; -1 if the weight is unknown. Also -1 for a weight.
  int weight = -1;
  // Whether the inner dimension is the output of the weight. A bias then has
  // the same dimension.
  bool column = false;
  // Whether lints find the same scanned layers as `suggest`. Lints do not read
  // --scan-axis: they use only names and shapes.
  bool layers_shown = true;

  bool IsMatrix() const { return inner >= 0 && width >= 0; }
  // Returns the number of experts, whether they are a dimension or separate
  // tensors; 0 if the group has no experts.
  int64_t Experts() const;
  // Returns the indices of the dimensions that do not count scanned layers.
  std::vector<size_t> OfOneLayer() const;
  // Returns whether the parameter is a matrix and nothing shows what it does.
  // Of a table of the vocabulary that only its sizes suggest, it is unknown
  // whether it is the embedding or the output head.
  bool IsOfUnknownRole() const;
};

// Facts inferred about the model, for the comment at the top of the rules file.
struct ModelFacts {
  std::vector<int64_t> widths, vocabularies;
  // Vocabularies that only sizes suggest.
  std::vector<int64_t> assumed_vocabularies;
  std::vector<std::string> heads;  // such as "32 heads of 128, 8 KV heads"
  int64_t experts = 0;
  bool experts_assumed = false;  // true: only sizes suggest the experts
  bool heads_assumed = false;
  bool by_program = false;     // true: the user's program shows the roles
  bool has_config = false;     // true: the model's configuration is given
  bool unknown_names = false;  // true: no parameter name suggests a role
};

struct ModelDims {
  std::vector<InferredDims> groups;  // indexed as Tree::groups
  ModelFacts facts;
  // The scanned layers of the model. LayerStacks::dims is indexed as
  // Tree::groups.
  LayerStacks stacks;
};

// Infers the role and the dimensions of each group. `model` is the
// configuration and may be null; a value in it that contradicts the shapes is
// ignored. `tensor_parts` is the size of the tensor-parallel axis.
ModelDims InferDims(const Tree& tree, const ModelConfig* model,
                    int64_t tensor_parts, const ScanAxis& axis = {});

// Infers the number of heads of each attention block, because a head must stay
// in one shard.

struct Heads {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool assumed = false;  // true: the size of a head is a guess
  // Whether models have heads of this size. If not, the numbers are only safe
  // to shard by, and are not printed.
  bool likely = true;

  // Return the columns of all heads, and of all KV heads.
  int64_t Columns() const { return heads * head_dim; }
  int64_t KvColumns() const { return kv_heads * head_dim; }
};

// Returns the heads of the configuration. Returns nullopt if it states no
// number or no size of heads, or if `model` is null.
std::optional<Heads> ConfiguredHeads(const ModelConfig* model);

// Sets InferredDims::units, the numbers that the size of the tensor-parallel
// axis has to divide, for attention projections and for fused gate-up
// projections. `tensor_parts` is the size of that axis. If the size of a head
// is only assumed and `tensor_parts` is not a power of two, a larger size is
// assumed: a multiple of every likely head size that divides the projections.
// Each shard then has complete heads for all these sizes.
void InferHeads(const Tree& tree, const ModelConfig* model,
                int64_t tensor_parts, ModelDims& dims);

// Interprets each parameter group as a matrix with two sides, even if its
// tensors have more than two dimensions.

struct Matrix {
  // The dimensions of the parameter that are the first and the last side; -1 if
  // the parameter is no matrix.
  int first = -1;
  int last = -1;
  // The sizes of the first and the last side. If heads and their columns are
  // two dimensions, the size of the side is their product. For packed weights,
  // the sizes are those after unpacking.
  Shape sides;
  // Whether `sides` are the sizes of the weight. If false, the weight is packed
  // and its unpacked sizes are unknown: `sides` are the stored sizes.
  bool sides_known = true;
  // True if the sides are [in, out], and false if they are [out, in]; nullopt
  // if neither the sizes nor the name show the orientation.
  std::optional<bool> in_first;

  bool valid() const { return first >= 0 && last >= 0; }
};

struct Matrices {
  std::vector<Matrix> groups;  // indexed as Tree::groups
  Widths widths;

  // Returns the model's width if it is a side of the matrix of group `k`.
  // Returns 0 if neither side is the width, or if the sides are unknown.
  int64_t WidthOf(const Tree& tree, size_t k) const;
};

// Finds the two sides of each group, and their orientation. Marks dimensions
// that are never sharded. A group with more than two dimensions that is not a
// matrix gets the role of a convolution, unless it is a position table. The
// tree must come from WithoutLayers(), and MarkExperts() must have been called.
Matrices FindMatrices(const Tree& tree, const ModelConfig* model,
                      ModelDims& dims);

// Returns whether the dtype of the group may store several weights in one
// number.
bool MayPack(const ParameterGroup& group);

LayerStacks StacksOf(const Tree& tree, const ModelConfig* model,
                     const ScanAxis& axis);

// Returns a copy of the tree in which each group has the shape of one layer.
Tree WithoutLayers(const Tree& tree, const LayerStacks& stacks);

// Adds the dimensions that count layers to `dims`, which were inferred for the
// tree that WithoutLayers() returned. `tree` is the original tree, which has
// these dimensions.
void RestoreLayers(const Tree& tree, const LayerStacks& stacks,
                   ModelDims& dims);

// Returns whether a group belongs to numbered layers: it is in a stack of
// scanned layers, or its name contains a counter.
bool InLayers(const ParameterGroup& group);

// Finds the experts. Marks the dimension that counts them. If each expert has
// its own tensor, sets `expert_count` to the number of experts. `model` is the
// configuration, and may be null.
void MarkExperts(const Tree& tree, const ModelConfig* model, ModelDims& dims);

// Links the companions of a weight (bias, scales and other vectors) to the
// weight, and finds the blocks of elements that must stay in one shard because
// they share a scale or are stored together.

// Sets `weight` of each bias, scale and other vector to the index of the group
// of weights with the same module path. If several groups have this path, the
// group with the most tensors is chosen. If no group has it, `weight` stays -1.
// Must be called after the roles were corrected by the sizes of the dimensions.
void LinkCompanions(const Tree& tree, ModelDims& dims);

// Sets `block` of each dimension: the number of elements that must stay in one
// shard because they share a scale, or because the dtype stores them together.
// LinkCompanions must be called before. If the model has no scales, the input
// and the output dimension of attention and MLP matrices get the quantisation
// blocks that the configuration `model` has for their modules. A group has one
// spec, so its block keeps those of all members together. `model` may be null.
void SetBlocks(const Tree& tree, const ModelConfig* model, ModelDims& dims);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_DIMS_H_
