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
  std::string_view name;  // "PyTorch DCP", for messages
  // Returns whether the folder has this format. It is recognised by the names
  // of files and subfolders, and by the first bytes of some files. An
  // incomplete or damaged folder may be recognised as well.
  bool (*detect)(const Folder& folder);
  // Opens a folder that `detect` recognised. Returns nullopt after a finding.
  std::optional<Tree> (*open)(const Folder& folder, Findings& findings);
};

// Returns the first format that recognises the folder, or nullptr.
const Format* FormatOf(const Folder& folder);

// Returns whether the name marks a folder as an unfinished checkpoint of orbax
// or shardc.
bool IsUnfinishedName(std::string_view name);

// Opens a folder of this format, as OpenTree does. A folder with an unfinished
// name is always refused: it may lack the file that shows its format, and then
// look like a checkpoint of another format.
std::optional<Tree> OpenAs(const Format& format, const Folder& folder,
                           Findings& findings);

bool HasEnding(const Folder& folder, std::string_view ending);

// Returns all formats, in the order in which they are tried.
std::span<const Format* const> Formats();

}  // namespace shardc::stored

#endif  // SHARDC_STORED_FORMAT_H_
