// What a place in a file means: a pattern, a token or a bundle, a target.
#ifndef SHARDC_LSP_HOVER_H_
#define SHARDC_LSP_HOVER_H_

#include <cstddef>
#include <optional>
#include <string>

#include "lsp/workspace.h"

namespace shardc::lsp {

struct Hover {
  std::string markdown;
  size_t begin = 0, end = 0;  // of what it is about
};

std::optional<Hover> HoverAt(const Workspace& workspace,
                             const Document& document, size_t offset);

// Whether the word at an offset of a rules file names what specs are made of,
// an axis rule, a token, a bundle or an axis; `whole` where it is a whole spec.
struct NameAt {
  std::string name;
  size_t begin = 0, end = 0;
  bool whole = false;
};
std::optional<NameAt> SpecNameAt(const Document& document, size_t offset);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_HOVER_H_
