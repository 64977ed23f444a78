// Finds the parameter group of a name by comparing it with recent names.
#ifndef SHARDC_LINT_ANALYSIS_LAST_GROUPS_H_
#define SHARDC_LINT_ANALYSIS_LAST_GROUPS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardc {

// Returns whether two names have the same template (AppendTemplate of
// model/name.h). Does not build the templates. The separator must not be 0.
bool SameTemplate(std::string_view a, std::string_view b, char separator);

// A small table of recent parameters and their groups. The parameters of a
// layer or an expert follow each other, so the groups of most names are found
// here. Comparing two names is faster than building and hashing a template.
class LastGroups {
 public:
  // Keeps views of the names, which must outlive this object.
  explicit LastGroups(char separator) : separator_(separator) {}

  // Returns the group of an earlier parameter with the same template, layout
  // and rule. Returns nullopt if no such parameter is in the table: there was
  // none, or a later parameter has replaced its entry.
  std::optional<uint32_t> Find(std::string_view name, uint32_t layout,
                               int32_t rule);
  void Keep(std::string_view name, uint32_t layout, int32_t rule,
            uint32_t group);

 private:
  struct Entry {
    std::string_view name;
    uint32_t layout = UINT32_MAX;
    int32_t rule = 0;
    uint32_t group = 0;
  };
  using Entries = std::array<Entry, 4>;
  Entries& Of(uint32_t layout, int32_t rule) {
    // 1 is added because the rule is -1 if no rule matches.
    const uint64_t key =
        uint64_t{layout} * 31 + static_cast<uint64_t>(int64_t{rule} + 1);
    return table_[key % table_.size()];
  }

  char separator_;
  std::array<Entries, 64> table_;
  size_t next_ = 0;
};

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_LAST_GROUPS_H_
