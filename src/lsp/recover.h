// Checks a rules file that has errors. The file is read several times, and each
// reading leaves out the entries in which earlier readings found errors. The
// errors of one rule therefore do not hide the findings about other rules.
#ifndef SHARDC_LSP_RECOVER_H_
#define SHARDC_LSP_RECOVER_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "source/file.h"
#include "source/finding.h"

namespace shardc::lsp {

// A rules file in which some entries (rules, bundles, settings) are replaced by
// blanks. Every other byte keeps its offset, and every line its number.
struct Blanked {
  std::string text;
  // The errors of the entries that are not YAML. The errors of the first such
  // entry are not included, because the parser has reported them.
  Findings errors;
};

// Blanks the entries that contain these offsets. If the text is not YAML,
// blanks the entries that are not YAML by themselves instead. Returns nullopt
// if no such entry is found, or if the text is still not YAML.
std::optional<Blanked> BlankEntries(const SourceRef& source,
                                    const std::set<size_t>& offsets);

class Recovery {
 public:
  // A file is read at most this many times. Each time, all errors of one stage
  // (YAML, keys, patterns or names) are found, so a few times are enough.
  static constexpr int kReadings = 6;

  // `texts` are the texts of open files, which are read in place of the files
  // on disk.
  explicit Recovery(const FileTexts& texts) : texts_(texts) {}

  // Returns the texts to read next. Blanks replace the entries in which errors
  // were found.
  const FileTexts& texts() const { return texts_; }
  // Returns whether entries of a file have been replaced by blanks.
  bool any() const { return !originals_.empty(); }

  // Replaces by blanks the entries of rules files in which `findings` has
  // errors, and stores these errors for Finish(). Returns false, and changes
  // nothing, if there is no such entry. `others` are the names of the files
  // that are not rules files.
  bool LeaveOut(const Findings& findings, const std::set<std::string>& others);

  // Adds the errors that LeaveOut() has stored to `findings`. Places in blanked
  // sources are replaced by the same places in the original sources.
  void Finish(Findings& findings) const;

 private:
  FileTexts texts_;
  Findings errors_;                             // errors that LeaveOut() stored
  std::map<std::string, SourceRef> originals_;  // blanked files, by name
};

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_RECOVER_H_
