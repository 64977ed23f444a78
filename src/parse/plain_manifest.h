// Ordinary manifests in shardc's JSON, and trees (parse/plain_tree.h), straight
// from the text: no tape, and names as views into it where it has them whole.
#ifndef SHARDC_PARSE_PLAIN_MANIFEST_H_
#define SHARDC_PARSE_PLAIN_MANIFEST_H_

#include <optional>

#include "model/manifest.h"
#include "source/source.h"

namespace shardc {

// What ParseManifest makes of such a text; nothing where it is another, be it
// right or wrong: that is then ParseManifest's to say.
std::optional<Manifest> ReadPlainManifest(const SourceRef& source);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_MANIFEST_H_
