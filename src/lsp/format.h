// Formats YAML files of shardc by their indentation and spaces.
#ifndef SHARDC_LSP_FORMAT_H_
#define SHARDC_LSP_FORMAT_H_

#include <vector>

#include "lint/fix.h"
#include "source/source.h"

namespace shardc::lsp {

// Returns the edits after which nested blocks, lists included, are indented by
// two spaces, names and values are separated by one space, lists in brackets
// are written `[a, b]`, and lines have no blanks at their ends. Comments and
// quotes stay. Several empty lines become one, and none are left at the start
// and the end. Returns none if the text is not YAML, if it has findings such as
// a key that is given twice, or if formatting would change its meaning.
std::vector<TextEdit> FormatEdits(const SourceRef& source);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_FORMAT_H_
