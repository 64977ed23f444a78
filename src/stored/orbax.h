// The folders that orbax writes around a tree: see orbax.cc and
// orbax_manager.cc.
#ifndef SHARDC_STORED_ORBAX_H_
#define SHARDC_STORED_ORBAX_H_

#include <string>
#include <string_view>

#include "source/finding.h"
#include "stored/tree.h"

namespace shardc::stored {

inline constexpr std::string_view kOrbaxMetadata = "_METADATA";

bool IsOrbaxTree(const Folder& folder);

// Returns whether the folder's name is one that orbax gives to a checkpoint
// until its save has finished.
bool IsUnfinishedName(std::string_view name);
// Adds the finding `missing` and returns true if the last component of the path
// is such a name.
bool RefuseUnfinished(const std::string& path, Findings& findings);

}  // namespace shardc::stored

#endif  // SHARDC_STORED_ORBAX_H_
