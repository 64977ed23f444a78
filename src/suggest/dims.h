// What each dimension of a parameter group counts (the model's width, heads, a
// feed-forward width, experts, layers), and what sharding must keep together.
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
  kUnsharded,  // a kernel's taps, packed bytes, the columns of one head
  kLayers,     // of scanned layers; not sharded either
  kExperts,    // one row for each
  kWidth,      // of the model
  kInner,      // heads, a feed-forward width, a vocabulary
  kUnknown
};

struct Dim {
  DimUse use = DimUse::kUnknown;
  int64_t size = 1;
  int64_t block = 1;  // the size of a shard is a multiple of it
};

// What was inferred of one parameter group.
struct InferredDims {
  ParameterRole by_name;
  Role role = Role::kOther;  // the own role by name, refined by sizes
  std::vector<Dim> dims;
  int inner = -1;            // the dimension that tensor parallelism shards
  int width = -1;            // the other dimension of the matrix
  int experts = -1;          // the dimension of experts
  int64_t expert_count = 0;  // if each expert is a tensor of its own
  // In elements, as if heads were one dimension and blocks were unpacked.
  int64_t width_size = 0;
  int64_t inner_size = 0;
  // Counts along the inner dimension (heads, KV heads, columns of one half),
  // each of which the size of the tensor parallel axis has to divide.
  std::vector<int64_t> units;
  int weight = -1;  // the group of the weight that a bias or scale belongs to
  bool column =
      false;  // the inner dimension is the output, so that of the bias

  bool IsMatrix() const { return inner >= 0 && width >= 0; }
  // The number of experts, as a dimension or as tensors; 0 for none.
  int64_t Experts() const;
  // The dimensions that do not count layers.
  std::vector<size_t> OfOneLayer() const;
};

// What was inferred of the model, for the comment at the head of the file.
struct ModelFacts {
  std::vector<int64_t> widths, vocabularies;
  std::vector<std::string> heads;  // "32 heads of 128, 8 KV heads"
  int64_t experts = 0;
  bool heads_assumed = false;
  bool unknown_names = false;  // no name has a known word
};

struct ModelDims {
  std::vector<InferredDims> groups;  // as in the tree
  ModelFacts facts;
  LayerStacks stacks;  // of scanned layers; groups as in the tree
};

// `model` may be null. A value of the configuration that contradicts the shapes
// is ignored. `tensor_parts` is the size of the tensor parallel axis.
ModelDims InferDims(const Tree& tree, const ModelConfig* model,
                    int64_t tensor_parts, const ScanAxis& axis = {});

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_DIMS_H_
