// Reads common manifests in shardc's JSON, and trees (parse/plain_tree.h),
// without building a JsonDocument.
#ifndef SHARDC_PARSE_PLAIN_MANIFEST_H_
#define SHARDC_PARSE_PLAIN_MANIFEST_H_

#include <cstddef>
#include <optional>

#include "model/manifest.h"
#include "source/input_file.h"
#include "source/source.h"

namespace shardc {

// Returns the manifest that ParseManifest returns, with `by_name` set, for a
// common manifest or a common tree, and nullopt for any other text, valid or
// not; the caller then runs ParseManifest, which also reports errors. Names are
// views into the text if possible.
std::optional<Manifest> ReadPlainManifest(const SourceRef& source);

// Returns the same for a manifest in shardc's JSON. Reads the file part by part
// and keeps only names and types, so that its text need not be in memory. The
// manifest's source has no text. Returns nullopt for any other text, and if the
// file cannot be read. The default window fits in a second-level cache; a
// parameter that is longer than the window is left to ParseManifest.
std::optional<Manifest> StreamPlainManifest(const InputFile& file,
                                            size_t window_bytes = size_t{1}
                                                                  << 18);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_MANIFEST_H_
