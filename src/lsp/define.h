// Finds the definitions of the names in a file, and lists the symbols of a
// file, which an editor shows as the file's outline.
#ifndef SHARDC_LSP_DEFINE_H_
#define SHARDC_LSP_DEFINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lsp/workspace.h"

namespace shardc::lsp {

// Returns the definition of the name at an offset:
// - for the name of a file, the file
// - for a bundle, a registered name or an axis rule, the lines that define it
// - for a built-in logical axis, the line that sets its axis rule, if any
// - for a built-in bundle, an empty list
// If a pack (a rules file that is built into shardc) has the definition, the
// place is in the file that PackAsFile (lsp/pack_file.h) writes.
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

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_DEFINE_H_
