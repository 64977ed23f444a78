// Collects evidence, from the names and sizes of a subtree's parameters, on
// whether a dimension counts layers. layer_stacks.h draws the conclusion.
#ifndef SHARDC_ROLES_STACK_SIGNS_H_
#define SHARDC_ROLES_STACK_SIGNS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/manifest.h"
#include "roles/classify.h"

namespace shardc {

struct StackMember {
  std::vector<std::string_view> parts;  // parts of the name
  Shape shape;            // without dimensions that count known stacks
  std::vector<int> dims;  // indexed by dimension of `shape`: stored dimension
  ParameterRole role;
  bool stacked = false;
};

using Indices = std::vector<uint32_t>;  // of members

// A dimension that several shapes have in common, and its size. A `dim` below 0
// is counted from the last dimension.
struct StackDim {
  int dim = 0;
  int64_t size = 0;
};

// Returns the index of a dimension, counted from the first one. `dim` may be
// below 0, which counts from the last dimension.
int FromFront(const Shape& shape, int dim);

// Returns the size of a dimension; 0 if the shape has no such dimension.
int64_t SizeAt(const Shape& shape, int dim);

// Signs for and against the assumption that a dimension of a subtree's members
// counts layers.
struct StackSigns {
  // Whether, in each layer, a norm or bias would be a single number, or a
  // parameter of an adapter would be less than a matrix.
  bool contradiction = false;
  bool numbers = false;  // a parameter would be one number in a layer
  bool norm = false;     // a norm has more dimensions than in one layer
  bool query = false, output = false, feed_forward = false;
  bool experts = true;  // all members are below `experts`
  bool spatial = true;  // each matrix has over two dimensions in a layer
  bool stored_matrices = false;  // a parameter has a matrix for each layer
  bool narrow = true;            // each matrix has a side above StackDim::size
  int matrices = 0, vectors = 0;

  // Returns whether the matrices make up a block: a query and a feed-forward
  // weight.
  bool Block() const { return query && feed_forward; }
};
StackSigns SignsOf(std::span<const StackMember> all, const Indices& members,
                   const StackDim& one);

// What the words in the common path of all members name: experts, or layers, by
// a sure word (`word`) or by a weak one such as `block` (`weak_word`). Words
// before a counter are not used, because the layers that they name are separate
// tensors; `counted` is then set.
struct StackPath {
  bool counted = false, experts = false, word = false, weak_word = false;
};
// The members must share the first `depth` parts.
StackPath PathOf(std::span<const StackMember> all, const Indices& members,
                 size_t depth);

}  // namespace shardc

#endif  // SHARDC_ROLES_STACK_SIGNS_H_
