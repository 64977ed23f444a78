// Inlay hints: an editor shows at the end of each pattern how many parameters
// the pattern matches, and their bytes.
#ifndef SHARDC_LSP_INLAY_H_
#define SHARDC_LSP_INLAY_H_

#include <cstddef>
#include <string>
#include <vector>

#include "lsp/workspace.h"

namespace shardc::lsp {

struct InlayHint {
  // The byte offset at which the editor shows the hint: the end of the pattern.
  size_t offset = 0;
  std::string label;    // "4 parameters, 128 KiB"
  std::string tooltip;  // one line for each target, with bytes per device
};

// Returns a hint for each rule between two offsets of a document. The hint has
// three numbers: the parameters that the rule matches, those for which it is
// the first match, and their bytes. If these numbers differ between targets,
// the hint names the targets. Returns an empty list if no target that reads the
// document compiles.
std::vector<InlayHint> InlayHintsIn(const Workspace& workspace,
                                    const Document& document, size_t begin,
                                    size_t end);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_INLAY_H_
