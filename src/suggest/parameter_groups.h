// Directory: suggest. Writes rules for a model that has none: groups its
// parameters, infers their roles and dimensions, chooses specs for a mesh, and
// makes patterns that are proven to match.
// Its files include headers of these directories: source, model, match,
// program, roles, facts, plan.
//
// The stages run in this order: parameter_groups, dims, choose, patterns,
// write. If the user gives only a number of devices, the stage `mesh` first
// chooses a mesh. All stages work on parameter groups and not on single
// tensors.
#ifndef SHARDC_SUGGEST_PARAMETER_GROUPS_H_
#define SHARDC_SUGGEST_PARAMETER_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
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

class NameIndex {
 public:
  // The arguments must outlive the index. Each element of `rule_groups` lists
  // the parameter groups of one rule. Each group of the tree must be in exactly
  // one of these lists.
  NameIndex(const Tree& tree,
            const std::vector<std::vector<uint32_t>>& rule_groups);

  const Tree& tree() const { return tree_; }
  const ParameterGroup& GroupAt(uint32_t k) const { return tree_.groups[k]; }
  // Returns the last `parts` parts of the name of group `k`, joined by the
  // separator.
  std::string Suffix(uint32_t k, size_t parts) const;

  // Returns whether a group of another rule than that of group `k` has a name
  // that ends with `text`. Names that equal the name of group `k` are ignored.
  bool OthersEndWith(std::string_view text, uint32_t k) const;

  // Returns whether another rule has a group with the same name as group `k`.
  // The two groups then differ in shape or dtype.
  bool IsNameElsewhere(uint32_t k) const;

  // Returns the digit strings in place of one counter (`*`) of the name of
  // group `k`, such as "0" and "3"; `counter` is its index. Other groups of the
  // same rule that have this name are included. A string may be returned
  // several times.
  std::vector<std::string> NumbersHere(uint32_t k, size_t counter) const;
  // Returns whether the digit strings of group `k` at this counter occur only
  // in its own rule, and not in groups of the same name in other rules.
  bool HasOwnNumbers(uint32_t k, size_t counter) const;

 private:
  // Marks a name or a digit string that occurs in several rules.
  static constexpr size_t kSeveral = SIZE_MAX;

  // All parameter groups with the same name, in ascending order, and the index
  // of their rule; kSeveral if they belong to several rules.
  struct Name {
    std::vector<uint32_t> groups;
    size_t rule_group = kSeveral;
  };
  // Maps each number in place of one counter, such as "3", to the index of the
  // rule of the tensors with this number; to kSeveral if these tensors belong
  // to several rules.
  using Owners = std::unordered_map<std::string_view, size_t>;

  std::set<std::string_view> Numbers(uint32_t k, size_t counter) const;
  const Owners& OwnersOf(const Name& name, size_t counter) const;

  const Tree& tree_;
  // The index of each parameter group's rule, indexed by parameter group.
  std::vector<size_t> rule_group_of_;
  std::map<std::string_view, Name> by_name_;
  std::vector<const Name*> name_of_;  // indexed by parameter group
  // The reversed names in sorted order, each with its groups. Names with a
  // common ending are found by binary search.
  std::vector<std::pair<std::string, const Name*>> reversed_;
  mutable std::map<std::pair<const Name*, size_t>, Owners> owners_;
};

// How a pattern matches the names of a group: by the last parts of a name, and
// under the conditions that the flags add.
struct Suffix {
  size_t parts = 1;  // how many of the last parts must match
  // Whether the match must begin after a separator or at the start.
  bool at_boundary = false;
  // Whether the match must begin at the start of the name: `^`.
  bool at_start = false;
  // The index of the counter (a `*` of the group's name) whose numbers the
  // pattern lists; -1 if the pattern lists no numbers.
  int counter = -1;
  bool by_names = false;  // whether the pattern lists each complete name
};

// Returns a short suffix of the name of group `k` that is not the ending of a
// different name in another rule; the complete name if there is no such suffix.
// If another rule has a group with the same name, the pattern must also list
// numbers or complete names (Suffix::counter, Suffix::by_names).
Suffix FirstSuffix(const NameIndex& names, uint32_t k);

// Lengthens suffixes so that one pattern can match several groups of a rule.
// Suppose that the suffix of group a has fewer parts than the suffix of group
// b. If the names differ in exactly one of the parts of b's suffix, the suffix
// of a gets as many parts as that of b:
//
//   up_proj.weight, mlp.gate.weight  ->  mlp.up_proj.weight, mlp.gate.weight
void AlignSuffixes(const NameIndex& names, const std::vector<uint32_t>& group,
                   std::vector<Suffix>& suffixes);

// Makes a suffix match fewer names, by the first of these steps that is
// possible: add a part; match only from a separator or the start of the name;
// match only from its start; list complete names. Returns false if no step is
// possible.
bool Narrow(const NameIndex& names, uint32_t k, Suffix& suffix);

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_PARAMETER_GROUPS_H_
