// Reads common manifests in shardc's JSON, and trees (parse/plain_tree.h),
// without building a JsonDocument. Names are views into the text if possible.
#ifndef SHARDC_PARSE_PLAIN_MANIFEST_H_
#define SHARDC_PARSE_PLAIN_MANIFEST_H_

#include <optional>

#include "model/manifest.h"
#include "source/source.h"

namespace shardc {

// Returns what ParseManifest returns for such a text, or nullopt for any other
// text, valid or not; the caller then runs ParseManifest, which also reports
// errors.
std::optional<Manifest> ReadPlainManifest(const SourceRef& source);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_MANIFEST_H_
