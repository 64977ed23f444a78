// What the dimensions of each kind count: the model's width, what a part has
// inside, experts, layers; and what of them a cut must keep whole.
#ifndef SHARDC_SUGGEST_DIMS_H_
#define SHARDC_SUGGEST_DIMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lint/analysis/orientation.h"
#include "model/project.h"
#include "suggest/kinds.h"
#include "suggest/words.h"

namespace shardc::suggest {

enum class Use : uint8_t {
  kWhole,    // never cut: a kernel's taps, packed bytes, a head's columns
  kLayers,   // never cut either
  kExperts,  // one row for each
  kWidth,    // of the model
  kInner,    // heads, a feed-forward width, a vocabulary
  kFree      // of no known use
};

struct Dim {
  Use use = Use::kFree;
  int64_t size = 1;
  int64_t block = 1;  // a shard of any axis is a multiple of it
};

struct Reading {
  Named name;
  Part part = Part::kOther;
  std::vector<Dim> dims;
  int inner = -1;            // the dimension that tensor parallelism cuts
  int width = -1;            // the dimension that it does not
  int experts = -1;          // the dimension of experts
  int64_t expert_count = 0;  // where each is a tensor
  int64_t width_size = 0;    // in elements, whole heads and blocks unfolded
  int64_t inner_size = 0;
  // Numbers of heads or columns inside, each of which the axis has to divide.
  std::vector<int64_t> units;
  int weight = -1;      // the kind that a bias or a scale belongs to
  bool column = false;  // what is inside leaves: so does its bias

  bool IsMatrix() const { return inner >= 0 && width >= 0; }
};

// What was read of the whole tree, for the head of the file.
struct TreeFacts {
  std::vector<int64_t> widths, vocabularies;
  std::vector<std::string> heads;  // "32 heads of 128, 8 KV heads"
  int64_t experts = 0;
  bool heads_assumed = false;
  bool opaque = false;  // no word of it is known
};

struct Readings {
  std::vector<Reading> kinds;  // as in the tree
  TreeFacts facts;
};

// `model` may be null. Where it contradicts the tree it is not believed.
Readings ReadDims(const Tree& tree, const ModelConfig* model,
                  int64_t tensor_parts);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_DIMS_H_
