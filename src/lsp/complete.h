// Computes the completions that an editor offers at a cursor.
#ifndef SHARDC_LSP_COMPLETE_H_
#define SHARDC_LSP_COMPLETE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lsp/workspace.h"

namespace shardc::lsp {

struct Completion {
  // The values that LSP defines for CompletionItemKind.
  enum class Kind : uint8_t {
    kVariable = 6,   // axes
    kModule = 9,     // packs
    kProperty = 10,  // keys
    kValue = 12,
    kConstant = 21,  // logical axes
    kStruct = 22,    // bundles
    kEvent = 23,     // diagnostics
  };
  std::string label;
  Kind kind = Kind::kValue;
  std::string detail;
};

struct Completions {
  size_t begin = 0;  // offset where the replaced word begins
  std::vector<Completion> items;
};

Completions CompletionsAt(const Workspace& workspace, const Document& document,
                          size_t offset);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_COMPLETE_H_
