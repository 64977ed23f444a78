// The names of a tree's parameter groups, indexed by name and by ending.
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
  // The arguments must outlive the index. Each group of the tree must be in
  // exactly one of `rule_groups`.
  NameIndex(const Tree& tree,
            const std::vector<std::vector<uint32_t>>& rule_groups);

  const Tree& tree() const { return tree_; }
  const ParameterGroup& GroupAt(uint32_t k) const { return tree_.groups[k]; }
  // Returns the last `parts` parts of a name, joined by the separator.
  std::string Suffix(uint32_t k, size_t parts) const;

  // Returns whether a group in another rule group has a name that ends with
  // this text. Names that equal the name of group `k` do not count.
  bool OthersEndWith(std::string_view text, uint32_t k) const;

  // Returns whether another rule group has a group with the name of group `k`,
  // which then differs from `k` in shape or dtype.
  bool IsNameElsewhere(uint32_t k) const;

  // Returns the digit strings that tensors have at the `*` with the index
  // `counter` in the name of group `k`: the tensors of all groups with this
  // name in the rule group of `k`. A string may be returned several times.
  std::vector<std::string> NumbersHere(uint32_t k, size_t counter) const;
  // Returns whether no group with this name in another rule group has one of
  // the digit strings that tensors of group `k` have there.
  bool HasOwnNumbers(uint32_t k, size_t counter) const;

 private:
  static constexpr size_t kSeveral = SIZE_MAX;

  // The groups of one name, ascending, and their rule group or kSeveral.
  struct Name {
    std::vector<uint32_t> groups;
    size_t rule_group = kSeveral;
  };
  // The rule group of the tensors with a digit string at one counter of a name,
  // or kSeveral.
  using Owners = std::unordered_map<std::string_view, size_t>;

  std::set<std::string_view> Numbers(uint32_t k, size_t counter) const;
  const Owners& OwnersOf(const Name& name, size_t counter) const;

  const Tree& tree_;
  std::vector<size_t> rule_group_of_;
  std::map<std::string_view, Name> by_name_;
  std::vector<const Name*> name_of_;  // by group
  // The reversed names, sorted, each with its groups. They are searched for
  // names with a common ending.
  std::vector<std::pair<std::string, const Name*>> reversed_;
  mutable std::map<std::pair<const Name*, size_t>, Owners> owners_;
};

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_NAME_INDEX_H_
