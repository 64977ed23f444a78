// A fast reader of manifests in the usual syntax, in shardc's JSON or as trees
// (parse/plain_manifest.cc). It does not build a JsonDocument.
#ifndef SHARDC_PARSE_PLAIN_MANIFEST_H_
#define SHARDC_PARSE_PLAIN_MANIFEST_H_

#include <cstddef>
#include <optional>

#include "model/manifest.h"
#include "source/input_file.h"
#include "source/source.h"

namespace shardc {

// Returns the manifest that ParseManifest would return, with `by_name` set, if
// the text has the usual syntax. Returns nullopt for any other text, even if it
// is valid. The caller then calls ParseManifest, which also reports errors.
// Names are views into the text where possible.
std::optional<Manifest> ReadPlainManifest(const SourceRef& source);

// Reads a file in shardc's JSON through a window of `window_bytes` bytes.
// Returns the same manifest as ReadPlainManifest, except that Manifest::source
// has the file's path but an empty text. Keeps only names and types, so the
// full text need not be in memory. Returns nullopt if parameters are nested
// objects instead of a list or an object of full names, for unusual syntax, for
// a parameter that is longer than the window, and if the file cannot be read.
// The default window fits in a second-level cache.
std::optional<Manifest> StreamPlainManifest(const InputFile& file,
                                            size_t window_bytes = size_t{1}
                                                                  << 18);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_MANIFEST_H_
