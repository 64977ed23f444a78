// Corrects the indentation and the spaces of rules, mesh and project files.
#ifndef SHARDC_LSP_FORMAT_H_
#define SHARDC_LSP_FORMAT_H_

#include <vector>

#include "lint/fix.h"
#include "source/source.h"

namespace shardc::lsp {

// Returns the edits that format a text. The edits indent nested blocks,
// including lists, by two spaces, separate names and values by one space, and
// write lists in brackets as `[a, b]`. The edits remove spaces at the ends of
// lines, repeated empty lines, and empty lines at the start and the end.
// Returns no edits if the text is not YAML, if it has findings such as a key
// that is given twice, or if formatting would change its meaning.
std::vector<TextEdit> FormatEdits(const SourceRef& source);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_FORMAT_H_
