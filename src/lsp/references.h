// The references to a name in all files that are read together, and its
// renaming in them.
#ifndef SHARDC_LSP_REFERENCES_H_
#define SHARDC_LSP_REFERENCES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lint/fix.h"
#include "lsp/workspace.h"
#include "source/source.h"

namespace shardc::lsp {

struct Reference {
  Place place;
  bool definition = false;
};

// Returns the uses of the name at an offset of the document. They are searched
// in the rules files, the meshes and the settings of every target that reads
// the document, and of every target that shares one of these files. Uses in
// packs are not returned. The result is empty if there is no name at the
// offset.
std::vector<Reference> ReferencesAt(const Workspace& workspace,
                                    const Document& document, size_t offset);

struct RenamedFile {
  SourceRef source;  // as it is
  std::vector<TextEdit> edits;
};

// What renaming would change, or why it is refused.
struct Renaming {
  std::string refusal;             // empty: it can be renamed
  Place name;                      // at the offset
  std::vector<RenamedFile> files;  // with the new name
};

// Renames a bundle, a registered logical axis or a mesh axis. With an empty
// `to`, only checks whether the name can be renamed. Refused: names that shardc
// or a pack defines, a new name that is not valid or already has a meaning, and
// mesh axes that an axis rule has by default, as the rule would keep the old
// one.
Renaming RenameAt(const Workspace& workspace, const Document& document,
                  size_t offset, const std::string& to);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_REFERENCES_H_
