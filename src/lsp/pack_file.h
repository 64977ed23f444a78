// Writes a rule pack to a file, because editors can only open files.
#ifndef SHARDC_LSP_PACK_FILE_H_
#define SHARDC_LSP_PACK_FILE_H_

#include "source/source.h"

namespace shardc::lsp {

// Writes a pack's text as a read-only file in the user's cache ($XDG_CACHE_HOME
// or ~/.cache). The file of `builtin:llama/hf` is `shardc/packs/llama.hf.yaml`.
// Returns the file; null if there is no cache directory or the file cannot be
// written.
SourceRef PackAsFile(const Source& pack);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_PACK_FILE_H_
