// The references to a name in all files that are read together, and the
// renaming of the name in these files.
#ifndef SHARDC_LSP_REFERENCES_H_
#define SHARDC_LSP_REFERENCES_H_

#include <cstddef>
#include <cstdint>
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

// Returns the definition of the name at an offset:
// - for the name of a file, the file
// - for a bundle, a registered name or an axis rule, the lines that define it
// - for a built-in logical axis, the line that sets its axis rule, if any
// - for a built-in bundle, an empty list
// If a pack (a rules file that is built into shardc) has the definition, the
// place is in the file that PackAsFile (lsp/references.cc) writes.
std::vector<Place> DefinitionsAt(const Workspace& workspace,
                                 const Document& document, size_t offset);

struct Symbol {
  // The numbers that LSP defines for kinds of symbols.
  enum class Kind : uint8_t {
    kModule = 2,
    kProperty = 7,
    kConstant = 14,
    kString = 15,
    kStruct = 23,
    kEvent = 24,
  };
  std::string name, detail;
  Kind kind = Kind::kProperty;
  size_t begin = 0, end = 0;            // range of the entire symbol
  size_t name_begin = 0, name_end = 0;  // range that the editor selects
  std::vector<Symbol> children;
};

// Returns the symbols of a document: its top keys and, as their children, the
// entries below each key, such as rules or targets. A rule is named by its
// pattern. Returns an empty list if the text is not valid YAML.
std::vector<Symbol> SymbolsOf(const Document& document);

// Corrects the indentation and the spaces of rules, mesh and project files.

// Returns the edits that format a text. The edits indent nested blocks,
// including lists, by two spaces, separate names and values by one space, and
// write lists in brackets as `[a, b]`. The edits remove spaces at the ends of
// lines, repeated empty lines, and empty lines at the start and the end.
// Returns no edits if the text is not YAML, if it has findings such as a key
// that is given twice, or if formatting would change its meaning.
std::vector<TextEdit> FormatEdits(const SourceRef& source);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_REFERENCES_H_
