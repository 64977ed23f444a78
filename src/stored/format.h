// The interface of a checkpoint format. Each format is a constant of the type
// Format, defined in its own source file and listed in table.h.
#ifndef SHARDC_STORED_FORMAT_H_
#define SHARDC_STORED_FORMAT_H_

#include <optional>
#include <span>
#include <string_view>

#include "source/finding.h"
#include "stored/tree.h"

namespace shardc::stored {

struct Format {
  std::string_view name;  // for messages, such as "PyTorch DCP"
  // Returns whether the folder has this format. The format is recognised by the
  // names of files and subfolders, and by the first bytes of some files. An
  // incomplete or damaged folder may be recognised too.
  bool (*detect)(const Folder& folder);
  // Opens a folder that `detect` recognised. Returns nullopt after a finding.
  std::optional<Tree> (*open)(const Folder& folder, Findings& findings);
};

// Returns the first format that recognises the folder, or nullptr if there is
// none.
const Format* FormatOf(const Folder& folder);

// Returns whether `name` is the name of a folder in which orbax or shardc has
// not finished a checkpoint.
bool IsUnfinishedName(std::string_view name);

// Opens a folder of this format. Refuses a folder with the name of an
// unfinished checkpoint. Such a folder may lack the file that identifies its
// format, and would then be opened in another format.
std::optional<Tree> OpenAs(const Format& format, const Folder& folder,
                           Findings& findings);

bool HasEnding(const Folder& folder, std::string_view ending);

// Returns all formats, in the order in which they are tried.
std::span<const Format* const> Formats();

}  // namespace shardc::stored

#endif  // SHARDC_STORED_FORMAT_H_
