// An index of the names of parameter groups, which finds names by their ending.
#ifndef SHARDC_SUGGEST_NAME_INDEX_H_
#define SHARDC_SUGGEST_NAME_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "suggest/parameter_groups.h"

namespace shardc::suggest {

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

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_NAME_INDEX_H_
