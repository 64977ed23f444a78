// Room: suggest. Writes rules for a model that has none: groups its parameters,
// infers their roles and dimensions, chooses specs for a mesh, and makes
// patterns that are proven to match.
// Includes: source, model, match, roles, plan.
//
// Stages in the order of use: parameter_groups, dims, choose, patterns, write;
// mesh if only a number of devices is given. All work is done per parameter
// group, never per tensor.
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

// Tensors of one shape and dtype whose names differ in counters only.
struct ParameterGroup {
  std::string name;                     // counters as `*`
  std::vector<std::string_view> parts;  // of the name
  Shape shape;
  std::optional<Dtype> dtype;
  int64_t elements = 0;  // of one tensor
  int64_t bytes = 0;     // of one tensor; 1 an element if the dtype is unknown
  uint32_t begin = 0;    // range into Tree::members
  uint32_t end = 0;

  // The number of scanned layers in one tensor. InferDims sets it, in its own
  // copy of the tree only.
  int64_t layers = 1;
  std::optional<size_t> stack_size;  // characters of the stack's path

  int64_t count() const { return end - begin; }
  // The number of tensors, where a tensor of scanned layers counts once per
  // layer.
  int64_t instances() const { return count() * layers; }
  int64_t total_bytes() const { return bytes * count(); }
  int rank() const { return static_cast<int>(shape.size()); }
  // The path of the layer stack: that of scanned layers, otherwise the name up
  // to its first counter; empty for a name without one.
  std::string_view stack() const;
  bool Has(std::string_view part) const;
};

// Parts of names are views, so that a tree is moved and never copied.
struct Tree {
  Tree() = default;
  Tree(Tree&&) = default;
  Tree& operator=(Tree&&) = default;

  const Manifest* manifest = nullptr;  // outlives the tree
  char separator = 0;
  std::vector<ParameterGroup> groups;  // in the order of their first tensors
  std::vector<uint32_t> members;       // indices of tensors, by group
  int64_t bytes = 0;
  int64_t shapeless = 0;  // tensors without a shape, in no group

  std::span<const uint32_t> Members(const ParameterGroup& group) const {
    return std::span(members).subspan(group.begin, group.end - group.begin);
  }
  std::string_view NameOf(uint32_t tensor) const {
    return manifest->tensors[tensor].name;
  }
};

Tree ParameterGroupsOf(const Manifest& manifest);

// The digits of a name where `folded`, its group's name, has `*`, in order.
std::vector<std::string_view> CountersOf(std::string_view name,
                                         std::string_view folded);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PARAMETER_GROUPS_H_
