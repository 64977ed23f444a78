// The references to a name in all files that are read together, and the
// renaming of the name in these files.
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

// Returns the uses of the name at an offset of the document. Returns an empty
// list if no name is at the offset. The search covers the rules files, the
// mesh, the settings and the project file of every target that reads the
// document. Other targets are added if they share a rules, mesh or settings
// file with a target already found. Uses in packs (rules files that are built
// into shardc) are not returned.
std::vector<Reference> ReferencesAt(const Workspace& workspace,
                                    const Document& document, size_t offset);

struct RenamedFile {
  SourceRef source;  // the text before the edits
  std::vector<TextEdit> edits;
};

// The changes of a renaming, or the reason why it is refused.
struct Renaming {
  std::string refusal;             // why the renaming is refused; or empty
  Place name;                      // the old name in the document
  std::vector<RenamedFile> files;  // the edits of each file
};

// Renames a bundle, a registered logical axis or a mesh axis. With an empty
// `to`, only checks whether the name can be renamed. Renaming is refused in
// these cases:
// - no such name is at the offset, or it is a name of shardc itself
// - no file defines the name, or a pack (a rules file that is built into
//   shardc) uses it
// - one of the files is not valid YAML
// - the new name is not valid or already has a meaning
// - the name is a mesh axis in the default value of an axis rule, which would
//   keep the old name
Renaming RenameAt(const Workspace& workspace, const Document& document,
                  size_t offset, const std::string& to);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_REFERENCES_H_
