// Reads manifests in the usual syntax, in shardc's JSON or as trees
// (parse/plain_tree.h), without building a JsonDocument.
#ifndef SHARDC_PARSE_PLAIN_MANIFEST_H_
#define SHARDC_PARSE_PLAIN_MANIFEST_H_

#include <cstddef>
#include <optional>

#include "model/manifest.h"
#include "source/input_file.h"
#include "source/source.h"

namespace shardc {

// Returns the manifest that ParseManifest would return, with `by_name` set, if
// the text has the usual syntax. Returns nullopt for any other text, valid or
// not. The caller then runs ParseManifest, which also reports errors. Names are
// views into the text if possible.
std::optional<Manifest> ReadPlainManifest(const SourceRef& source);

// Returns the same for a manifest in shardc's JSON. Reads the file part by part
// and keeps only names and types, so that the full text need not be in memory.
// The manifest's source has no text. Returns nullopt for any other text, and if
// the file cannot be read. The default window fits in a second-level cache.
// Returns nullopt as well for a parameter that is longer than the window.
std::optional<Manifest> StreamPlainManifest(const InputFile& file,
                                            size_t window_bytes = size_t{1}
                                                                  << 18);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_MANIFEST_H_
