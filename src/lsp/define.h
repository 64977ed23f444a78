// Definitions of the names in a file, and the symbols of a file.
#ifndef SHARDC_LSP_DEFINE_H_
#define SHARDC_LSP_DEFINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lsp/workspace.h"

namespace shardc::lsp {

// Returns the file that the text at the offset names, or the lines that define
// the bundle, registered name or axis rule there. Lines of a pack are in the
// file that PackAsFile (lsp/pack_file.h) writes. For a built-in logical axis,
// returns the line that sets its axis rule, if a file sets it. Empty for a
// built-in bundle.
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

// Returns the top keys of a document with the entries below each key, such as
// rules, which are named by their patterns, or targets. Returns an empty list
// if the text is not valid YAML.
std::vector<Symbol> SymbolsOf(const Document& document);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_DEFINE_H_
