// The names of a tree's parameter groups, indexed by name and by ending.
#ifndef SHARDC_SUGGEST_NAME_INDEX_H_
#define SHARDC_SUGGEST_NAME_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
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

  // Return groups that have the name of group `k`, but may differ from it in
  // shape or dtype. SameNameElsewhere returns the groups in other rule groups,
  // and SameNameHere the groups in the same rule group, including `k`.
  std::vector<uint32_t> SameNameElsewhere(uint32_t k) const;
  std::vector<uint32_t> SameNameHere(uint32_t k) const;

  // Returns the digit strings that the tensors of group `k` have at the `*`
  // with the index `counter` in the group's name.
  std::set<std::string_view> Numbers(uint32_t k, size_t counter) const;

 private:
  const Tree& tree_;
  std::vector<size_t> rule_group_of_;
  std::map<std::string_view, std::vector<uint32_t>> by_name_;
  // The reversed names, sorted, each with its groups. They are searched for
  // names with a common ending.
  std::vector<std::pair<std::string, const std::vector<uint32_t>*>> reversed_;
};

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_NAME_INDEX_H_
