// The colours of patterns and names in an editor: the semantic tokens of LSP.
#ifndef SHARDC_LSP_TOKENS_H_
#define SHARDC_LSP_TOKENS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lsp/position.h"
#include "lsp/workspace.h"

namespace shardc::lsp {

// Return the types and modifiers of LSP that the tokens use. A token contains
// the index of its type in the list, and a bit for each of its modifiers.
std::span<const std::string_view> TokenTypes();
std::span<const std::string_view> TokenModifiers();

// Returns five numbers per token: lines and columns after the previous token,
// length, type, and modifiers as bits. Returns an empty list if the document is
// not a file of shardc, or if it is not valid YAML even without its invalid
// entries.
std::vector<int64_t> SemanticTokensOf(const Workspace& workspace,
                                      const Document& document,
                                      Encoding encoding);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_TOKENS_H_
