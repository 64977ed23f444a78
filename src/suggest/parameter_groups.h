// Directory: suggest. Writes rules for a model that has none: groups its
// parameters, infers their roles and dimensions, chooses specs for a mesh, and
// makes patterns that are proven to match.
// Its files include headers of these directories: source, model, match, roles,
// program, plan.
//
// The stages run in this order: parameter_groups, dims, choose, patterns,
// write. If the user gives only a number of devices, the stage `mesh` first
// chooses a mesh. All stages work on parameter groups and not on single
// tensors.
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
// as the layer number.
struct ParameterGroup {
  std::string name;  // with `*` in place of each counter
  // The parts of `name`, between separators.
  std::vector<std::string_view> parts;
  Shape shape;
  std::optional<Dtype> dtype;
  int64_t elements = 0;  // elements of one tensor
  // The bytes of one tensor. If the dtype is unknown, one byte per element is
  // assumed.
  int64_t bytes = 0;
  uint32_t begin = 0;  // the group's tensors are Tree::members[begin, end)
  uint32_t end = 0;

  // The number of scanned layers in one tensor. It is 1 except in the copy of
  // the tree that InferDims() makes.
  int64_t layers = 1;
  // The length of the layer stack's path, which is a prefix of `name`; nullopt
  // if no dimension counts scanned layers.
  std::optional<size_t> stack_size;

  int64_t count() const { return end - begin; }
  // Returns the number of tensors. A tensor of scanned layers is counted once
  // for each layer.
  int64_t instances() const { return count() * layers; }
  int64_t total_bytes() const { return bytes * count(); }
  int rank() const { return static_cast<int>(shape.size()); }
  // Returns the path of the layer stack that contains the group. Without
  // scanned layers, this is the name up to its first counter; it is empty if
  // the name has no counter.
  std::string_view stack() const;
  bool Has(std::string_view part) const;
};

// The parameter groups of a manifest. A tree cannot be copied, because
// ParameterGroup::parts are views into the names of its groups.
struct Tree {
  Tree() = default;
  Tree(Tree&&) = default;
  Tree& operator=(Tree&&) = default;

  const Manifest* manifest = nullptr;  // outlives the tree
  char separator = 0;
  // The groups, in the order of their first tensors in the manifest.
  std::vector<ParameterGroup> groups;
  // Indices into the manifest's tensors, ordered by group.
  std::vector<uint32_t> members;
  int64_t bytes = 0;
  // Number of tensors without a shape, which are in no group.
  int64_t shapeless = 0;

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
