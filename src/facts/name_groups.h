// Groups parameters whose names differ only in the numbers of layers and
// experts.
#ifndef SHARDC_FACTS_NAME_GROUPS_H_
#define SHARDC_FACTS_NAME_GROUPS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardc::facts {

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

  // Returns the group of an earlier parameter with the same template and the
  // same type (index into Manifest::types). Returns nullopt if no such
  // parameter is in the table: there was none, or a later parameter has
  // replaced its entry.
  std::optional<uint32_t> Find(std::string_view name, uint32_t type);
  void Keep(std::string_view name, uint32_t type, uint32_t group);

 private:
  struct Entry {
    std::string_view name;
    uint32_t type = UINT32_MAX;
    uint32_t group = 0;
  };
  using Entries = std::array<Entry, 4>;
  // Returns the entries for parameters whose names end like this one. Many
  // parameters of a layer may have one type. Their names end with different
  // words.
  Entries& Of(std::string_view name, uint32_t type);

  char separator_;
  std::array<Entries, 64> table_;
  size_t next_ = 0;
};

}  // namespace shardc::facts

#endif  // SHARDC_FACTS_NAME_GROUPS_H_
