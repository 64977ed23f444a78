// Declarations that two readers share: the reader of a tree that orbax saved
// (orbax.cc), and the reader of the folders that orbax writes around trees
// (orbax_manager.cc).
#ifndef SHARDC_STORED_ORBAX_H_
#define SHARDC_STORED_ORBAX_H_

#include <string_view>

#include "stored/tree.h"

namespace shardc::stored {

inline constexpr std::string_view kOrbaxMetadata = "_METADATA";

bool IsOrbaxTree(const Folder& folder);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_ORBAX_H_
