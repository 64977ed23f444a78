// Reads common trees of parameters without building a JsonDocument.
#ifndef SHARDC_PARSE_PLAIN_TREE_H_
#define SHARDC_PARSE_PLAIN_TREE_H_

#include <optional>

#include "model/manifest.h"
#include "source/source.h"

namespace shardc {

// Returns the manifest that ParseManifest would return, with `by_name` set, for
// a nested tree in the usual syntax with leaves `{"shape", "dtype"}`. Returns
// nullopt for any other text, valid or not.
std::optional<Manifest> ReadPlainTree(const SourceRef& source);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_TREE_H_
