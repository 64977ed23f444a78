// The text that an editor shows for a pattern, a name in a spec, or a target.
#ifndef SHARDC_LSP_HOVER_H_
#define SHARDC_LSP_HOVER_H_

#include <cstddef>
#include <optional>
#include <string>

#include "lsp/workspace.h"

namespace shardc::lsp {

struct Hover {
  std::string markdown;
  size_t begin = 0, end = 0;  // byte range of the name or pattern
};

std::optional<Hover> HoverAt(const Workspace& workspace,
                             const Document& document, size_t offset);

// The name at an offset of a rules file. The name can occur in a spec: it is an
// axis rule, a logical axis, a bundle or a mesh axis. `whole` is true if the
// name may be a bundle: it is an entire spec, as in `spec: ColumnWise`, or the
// key of a bundle's definition.
struct NameAt {
  std::string name;
  size_t begin = 0, end = 0;
  bool whole = false;
};
std::optional<NameAt> SpecNameAt(const Document& document, size_t offset);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_HOVER_H_
