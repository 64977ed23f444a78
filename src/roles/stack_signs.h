// Collects signs, from the names and sizes of a subtree's parameters, that a
// dimension counts scanned layers. layer_stacks.h draws the conclusion.
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

// A parameter of the subtree that is examined.
struct StackMember {
  std::vector<std::string_view> parts;  // the parts of the name
  // The shape without those dimensions that are known to count layers.
  Shape shape;
  // Indexed by dimension of `shape`: the index that this dimension has in the
  // stored tensor.
  std::vector<int> dims;
  ParameterRole role;
  // Whether the parameter is in a known stack.
  bool stacked = false;
};

// Indices into the list of all StackMembers.
using Indices = std::vector<uint32_t>;

// A dimension that several shapes have in common, and its size. If `dim` is
// below 0, it is counted from the last dimension.
struct StackDim {
  int dim = 0;
  int64_t size = 0;
};

// Returns the index from the first dimension of the dimension `dim`. Like an
// index in Python, `dim` counts from the last dimension if it is below 0: for
// three dimensions, -1 becomes 2.
int FromFront(const Shape& shape, int dim);

// Returns the size of a dimension; 0 if the shape has no such dimension.
int64_t SizeAt(const Shape& shape, int dim);

// Signs for and against the assumption that one dimension of a subtree's
// parameters counts layers. "In a layer" means: without this dimension.
struct StackSigns {
  // Whether some norm or bias would be a single number in a layer, or some
  // parameter of an adapter would be less than a matrix.
  bool contradiction = false;
  // Whether a parameter would be a single number without the dimension.
  bool numbers = false;
  // Whether a norm has another dimension besides this one.
  bool norm = false;
  // Whether there is a query, an attention output or a feed-forward weight.
  bool query = false, output = false, feed_forward = false;
  // Whether all members are below a part such as `experts`.
  bool experts = true;
  // Whether each matrix would have over two dimensions without this one.
  bool spatial = true;
  // Whether a parameter would be a matrix without the dimension.
  bool stored_matrices = false;
  // Whether each matrix has a side that is longer than StackDim::size.
  bool narrow = true;
  int matrices = 0, vectors = 0;

  // Returns whether there is a query and a feed-forward weight, so that the
  // matrices make up a block.
  bool Block() const { return query && feed_forward; }
};
StackSigns SignsOf(std::span<const StackMember> all, const Indices& members,
                   const StackDim& one);

// What the words in the common path of all members name. `experts` is set for a
// word such as `experts`. `word` is set for a sure word for layers, such as
// `layers`, and `weak_word` for an unsure one, such as `block`. `counted` is
// set if the path has a `*`, which stands for a number. Words before a `*` are
// ignored: the layers in `layers.*.mlp`, for example, are separate tensors.
struct StackPath {
  bool counted = false, experts = false, word = false, weak_word = false;
};
// The names of the members must share the first `depth` parts.
StackPath PathOf(std::span<const StackMember> all, const Indices& members,
                 size_t depth);

}  // namespace shardc

#endif  // SHARDC_ROLES_STACK_SIGNS_H_
