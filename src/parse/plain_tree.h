// A fast reader of parameter trees in the usual syntax. It does not build a
// JsonDocument.
#ifndef SHARDC_PARSE_PLAIN_TREE_H_
#define SHARDC_PARSE_PLAIN_TREE_H_

#include <optional>

#include "model/manifest.h"
#include "source/source.h"

namespace shardc {

// Returns the manifest that ParseManifest would return, with `by_name` set, if
// the text is a tree in the usual syntax. The leaves of the tree are objects
// with `shape` and `dtype`. Returns nullopt for any other text, even if it is
// valid.
std::optional<Manifest> ReadPlainTree(const SourceRef& source);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_TREE_H_
