// Infers what each dimension of a parameter group counts: the model's width,
// heads, a feed-forward width, experts or layers. Also infers the units (such
// as the columns of a head) that sharding must not split.
#ifndef SHARDC_SUGGEST_DIMS_H_
#define SHARDC_SUGGEST_DIMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/project.h"
#include "roles/classify.h"
#include "roles/layer_stacks.h"
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

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_DIMS_H_
