// Files of this repository that are embedded in the library or the program.
#ifndef SHARDC_TARGET_EMBEDDED_H_
#define SHARDC_TARGET_EMBEDDED_H_

#include <span>

#include "source/embedded_file.h"

namespace shardc {

// Returns the files of rules/, sorted by name. The build writes the table.
std::span<const EmbeddedFile> EmbeddedPacks();

}  // namespace shardc

#endif  // SHARDC_TARGET_EMBEDDED_H_
