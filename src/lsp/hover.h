// The text that an editor shows for a pattern, a name in a spec, or a target.
#ifndef SHARDC_LSP_HOVER_H_
#define SHARDC_LSP_HOVER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lsp/position.h"
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

#endif  // SHARDC_LSP_HOVER_H_
