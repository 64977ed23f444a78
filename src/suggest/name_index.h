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
  // The arguments outlive the index. `rule_groups` partition the groups of the
  // tree.
  NameIndex(const Tree& tree,
            const std::vector<std::vector<uint32_t>>& rule_groups);

  const Tree& tree() const { return tree_; }
  const ParameterGroup& GroupAt(uint32_t k) const { return tree_.groups[k]; }
  // The last parts of a name, joined.
  std::string Suffix(uint32_t k, size_t parts) const;

  // Returns whether the name of a group of another rule group ends with this
  // text. Names equal to k's do not count.
  bool OthersEndWith(std::string_view text, uint32_t k) const;

  // Returns groups with k's name and another shape: those in other rule groups,
  // or those in k's own rule group.
  std::vector<uint32_t> SameNameElsewhere(uint32_t k) const;
  std::vector<uint32_t> SameNameHere(uint32_t k) const;

  // The digit strings of one counter (`*`) of a name, over its tensors.
  std::set<std::string_view> Numbers(uint32_t k, size_t counter) const;

 private:
  const Tree& tree_;
  std::vector<size_t> rule_group_of_;
  std::map<std::string_view, std::vector<uint32_t>> by_name_;
  // Reversed names in their order, each with its groups, for a search of names
  // with a common ending.
  std::vector<std::pair<std::string, const std::vector<uint32_t>*>> reversed_;
};

}  // namespace shardc::suggest

#endif  // SHARDC_SUGGEST_NAME_INDEX_H_
