// Declarations that two readers share. One reads a folder in which orbax saved
// a tree of arrays (orbax.cc). The other reads the folders of runs and steps
// that contain such folders (orbax_manager.cc).
#ifndef SHARDC_STORED_ORBAX_H_
#define SHARDC_STORED_ORBAX_H_

#include <string_view>

#include "stored/tree.h"

namespace shardc::stored {

inline constexpr std::string_view kOrbaxMetadata = "_METADATA";

bool IsOrbaxTree(const Folder& folder);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_ORBAX_H_
