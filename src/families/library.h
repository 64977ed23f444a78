// The set of family descriptions that a run uses: the bundled ones, and those
// of a folder that the user names.
#ifndef SHARDC_FAMILIES_LIBRARY_H_
#define SHARDC_FAMILIES_LIBRARY_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "source/finding.h"
#include "source/source.h"

namespace shardc::families {

class Library {
 public:
  // A default-constructed library has the bundled descriptions only.
  Library() = default;
  // Reads the files of a folder whose names end in `.yaml`. A description of
  // the folder is used in place of a bundled one of the same name. An empty
  // path stands for no folder. Returns nullopt after a finding if the folder
  // or one of its files cannot be read.
  static std::optional<Library> Open(const std::string& folder,
                                     Findings& findings);

  // Returns the text of the family's description; null if there is none. With
  // `bundled`, descriptions of the folder are not considered.
  SourceRef Find(std::string_view name, bool bundled = false) const;
  bool IsOwn(std::string_view name) const { return own_.contains(name); }
  // Returns the names of all families, or of those of the folder, sorted.
  std::vector<std::string_view> Names() const;
  std::vector<std::string_view> OwnNames() const;

 private:
  std::map<std::string, SourceRef, std::less<>> own_;
};

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_LIBRARY_H_
