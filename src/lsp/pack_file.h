// A rule pack as a file, for editors, which open nothing else.
#ifndef SHARDC_LSP_PACK_FILE_H_
#define SHARDC_LSP_PACK_FILE_H_

#include "source/source.h"

namespace shardc::lsp {

// A pack's text in the user's cache, $XDG_CACHE_HOME or ~/.cache, to be read
// and not written: `shardc/packs/llama.hf.yaml` of `builtin:llama/hf`. Null
// where there is no such folder or it cannot be written.
SourceRef PackAsFile(const Source& pack);

}  // namespace shardc::lsp

#endif  // SHARDC_LSP_PACK_FILE_H_
