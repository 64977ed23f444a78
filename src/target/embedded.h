// The rule packs that are embedded in the library.
#ifndef SHARDC_TARGET_EMBEDDED_H_
#define SHARDC_TARGET_EMBEDDED_H_

#include <span>

#include "source/embedded_file.h"

namespace shardc {

// Returns the packs in rules/, sorted by file name. The build generates the
// table.
std::span<const EmbeddedFile> EmbeddedPacks();

}  // namespace shardc

#endif  // SHARDC_TARGET_EMBEDDED_H_
