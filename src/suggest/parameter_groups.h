// Room: suggest. Writes rules for a model that has none: groups its parameters,
// infers their roles and dimensions, chooses specs for a mesh, and makes
// patterns that are proven to match.
// Includes: source, model, match, roles, plan.
//
// The stages are, in this order: parameter_groups, dims, choose, patterns,
// write. If only a number of devices is given, mesh chooses a mesh first. All
// work is done for parameter groups and not for single tensors.
#ifndef SHARDC_SUGGEST_PARAMETER_GROUPS_H_
#define SHARDC_SUGGEST_PARAMETER_GROUPS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/manifest.h"

namespace shardc::suggest {

// Tensors of the same shape and dtype whose names differ only in counters, such
// as the number of the layer.
struct ParameterGroup {
  std::string name;                     // with `*` in place of each counter
  std::vector<std::string_view> parts;  // of the name
  Shape shape;
  std::optional<Dtype> dtype;
  int64_t elements = 0;  // of one tensor
  // Bytes of one tensor; one byte for each element if the dtype is unknown.
  int64_t bytes = 0;
  uint32_t begin = 0;  // range into Tree::members
  uint32_t end = 0;

  // The number of scanned layers in one tensor. Only InferDims sets it, in its
  // own copy of the tree.
  int64_t layers = 1;
  // Length of the layer stack's path in `name`.
  std::optional<size_t> stack_size;

  int64_t count() const { return end - begin; }
  // Returns the number of tensors, where a tensor of scanned layers counts once
  // for each layer.
  int64_t instances() const { return count() * layers; }
  int64_t total_bytes() const { return bytes * count(); }
  int rank() const { return static_cast<int>(shape.size()); }
  // Returns the path of the layer stack: the path of scanned layers or, without
  // these, the name up to its first counter. Empty if the name has no counter.
  std::string_view stack() const;
  bool Has(std::string_view part) const;
};

// The parameter groups of a manifest. A tree is moved and never copied, because
// parts of names are views into it.
struct Tree {
  Tree() = default;
  Tree(Tree&&) = default;
  Tree& operator=(Tree&&) = default;

  const Manifest* manifest = nullptr;  // outlives the tree
  char separator = 0;
  std::vector<ParameterGroup> groups;  // in the order of their first tensors
  std::vector<uint32_t> members;       // indices of tensors, ordered by group
  int64_t bytes = 0;
  int64_t shapeless = 0;  // number of tensors without a shape; not in a group

  std::span<const uint32_t> Members(const ParameterGroup& group) const {
    return std::span(members).subspan(group.begin, group.end - group.begin);
  }
  std::string_view NameOf(uint32_t tensor) const {
    return manifest->tensors[tensor].name;
  }
};

Tree ParameterGroupsOf(const Manifest& manifest);

// Returns the digits that a name has in place of each `*` of `folded`, which is
// the name of its group: {"31"} for layers.31.w and layers.*.w.
std::vector<std::string_view> CountersOf(std::string_view name,
                                         std::string_view folded);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PARAMETER_GROUPS_H_
