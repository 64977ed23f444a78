// Where what is named in a file stands, and what a file consists of.
#ifndef SHARDC_LSP_DEFINE_H_
#define SHARDC_LSP_DEFINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lsp/workspace.h"

namespace shardc::lsp {

// The files that an entry names, or the lines that define a bundle, a
// registered name or an axis rule, in packs too (lsp/pack_file.h). None of the
// built-in tokens and bundles.
std::vector<Place> DefinitionsAt(const Workspace& workspace,
                                 const Document& document, size_t offset);

struct Symbol {
  // By the protocol's numbers.
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
  size_t begin = 0, end = 0;            // all of it
  size_t name_begin = 0, name_end = 0;  // what is shown as selected
  std::vector<Symbol> children;
};

// Keys with what stands below them: rules by their patterns, targets, bundles
// and registered names. None where the text is no YAML.
std::vector<Symbol> SymbolsOf(const Document& document);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_DEFINE_H_
