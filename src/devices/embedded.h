// The device profiles that are compiled into the library.
#ifndef SHARDC_DEVICES_EMBEDDED_H_
#define SHARDC_DEVICES_EMBEDDED_H_

#include <span>

#include "source/embedded_file.h"

namespace shardc {

// Returns all files of profiles/, sorted by name. The build generates the
// table.
std::span<const EmbeddedFile> EmbeddedProfiles();

}  // namespace shardc

#endif  // SHARDC_DEVICES_EMBEDDED_H_
