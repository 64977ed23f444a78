// Evidence from the names and sizes of a subtree's parameters on whether a
// dimension counts layers. layer_stacks.h draws the conclusion.
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
  std::vector<std::string_view> parts;  // of the name
  Shape shape;                          // without dimensions that were found
  std::vector<int> dims;  // of the parameter as stored, by dimension of `shape`
  ParameterRole role;
  bool stacked = false;
};

using Indices = std::vector<uint32_t>;  // of members

// A position in shapes, counted from the last dimension if below 0, and its
// size.
struct StackDim {
  int dim = 0;
  int64_t size = 0;
};

// The position counted from the first dimension.
int FromFront(const Shape& shape, int dim);

// The size at a position; 0 if the shape has no such position.
int64_t SizeAt(const Shape& shape, int dim);

// The signs that a dimension of the members of a subtree counts layers, or does
// not.
struct StackSigns {
  bool contradiction = false;  // a norm or bias would be a number a layer
  bool numbers = false;        // some parameter would be
  bool norm = false;           // a norm with one more dimension than it has
  bool query = false, output = false, feed_forward = false;
  bool experts = true;           // all are below a part that names experts
  bool spatial = true;           // all have the rank of a convolution
  bool stored_matrices = false;  // some parameter has a matrix for each layer
  bool narrow = true;            // each matrix has a larger dimension
  int matrices = 0, vectors = 0;

  // Whether the matrices are those of a block: a query and a feed-forward
  // weight.
  bool Block() const { return query && feed_forward; }
};
StackSigns SignsOf(std::span<const StackMember> all, const Indices& members,
                   const StackDim& one);

// What the words in the common part of all members' paths name: experts, or
// layers (surely or weakly). Words in front of a counter are left out, since
// the layers that they name have tensors of their own; `counted` is then set.
struct StackPath {
  bool counted = false, experts = false, word = false, weak_word = false;
};
// The members share the first `depth` parts.
StackPath PathOf(std::span<const StackMember> all, const Indices& members,
                 size_t depth);

}  // namespace shardc

#endif  // SHARDC_ROLES_STACK_SIGNS_H_
