// Ordinary trees of parameters, straight from the text.
#ifndef SHARDC_PARSE_PLAIN_TREE_H_
#define SHARDC_PARSE_PLAIN_TREE_H_

#include <optional>

#include "model/manifest.h"
#include "source/source.h"

namespace shardc {

// What ParseManifest makes of a nested tree with leaves `{"shape", "dtype"}`;
// nothing where the text is another, be it right or wrong.
std::optional<Manifest> ReadPlainTree(const SourceRef& source);

}  // namespace shardc

#endif  // SHARDC_PARSE_PLAIN_TREE_H_
