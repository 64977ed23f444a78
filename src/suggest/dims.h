// Finds the use of each dimension of a parameter group (the model's width,
// heads, a feed-forward width, experts, layers), and which elements must stay
// in one shard.
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

enum class DimUse : uint8_t {
  kUnsharded,  // convolution taps, packed bytes, columns of one head
  kLayers,     // counts scanned layers; never sharded
  kExperts,    // counts experts
  kWidth,      // the width (hidden size) of the model
  kInner,      // heads, a feed-forward width, a vocabulary
  kUnknown
};

struct Dim {
  DimUse use = DimUse::kUnknown;
  int64_t size = 1;
  int64_t block = 1;  // the size of a shard must be a multiple of it
};

// The role and the dimensions that were inferred for one parameter group.
struct InferredDims {
  ParameterRole by_name;
  Role role = Role::kOther;  // the role by name, refined by sizes
  std::vector<Dim> dims;
  // Indices into `dims`; -1 if there is no such dimension or it is unknown.
  int inner = -1;            // the dimension that tensor parallelism shards
  int width = -1;            // the other dimension of the matrix
  int experts = -1;          // the dimension of experts
  int64_t expert_count = 0;  // number of experts if each is a separate tensor
  // The sizes of the two sides of the matrix, in elements. If heads and their
  // columns are two dimensions, the side is their product. Packed blocks are
  // counted after unpacking.
  int64_t width_size = 0;
  int64_t inner_size = 0;
  // The counts along the inner dimension that the size of the tensor-parallel
  // axis has to divide: {32, 8} for a fused projection to 32 heads and 8 KV
  // heads, or the number of columns of one half of a fused gate-up projection.
  std::vector<int64_t> units;
  // For a bias, a scale or another vector, the index of the group of its
  // weight; -1 if there is none.
  int weight = -1;
  // Whether the inner dimension is the output, so that a bias has it as well.
  bool column = false;
  // Whether the tree alone shows the same layers, so that lints, which do not
  // know --scan-axis, leave out the same dimensions.
  bool layers_shown = true;

  bool IsMatrix() const { return inner >= 0 && width >= 0; }
  // Returns the number of experts, whether they are a dimension or separate
  // tensors; 0 if there are none.
  int64_t Experts() const;
  // Returns the indices of the dimensions that do not count layers.
  std::vector<size_t> OfOneLayer() const;
};

// Facts inferred about the model, for the comment at the top of the rules file.
struct ModelFacts {
  std::vector<int64_t> widths, vocabularies;
  std::vector<std::string> heads;  // "32 heads of 128, 8 KV heads"
  int64_t experts = 0;
  bool heads_assumed = false;
  bool unknown_names = false;  // no name contains a known word
};

struct ModelDims {
  std::vector<InferredDims> groups;  // in the order of Tree::groups
  ModelFacts facts;
  LayerStacks stacks;  // scanned layers, in the order of Tree::groups
};

// Infers the dimensions. `model` may be null. A value of the configuration that
// contradicts the shapes is ignored. `tensor_parts` is the size of the
// tensor-parallel axis.
ModelDims InferDims(const Tree& tree, const ModelConfig* model,
                    int64_t tensor_parts, const ScanAxis& axis = {});

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_DIMS_H_
