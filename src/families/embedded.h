// The family descriptions that are compiled into the library.
#ifndef SHARDC_FAMILIES_EMBEDDED_H_
#define SHARDC_FAMILIES_EMBEDDED_H_

#include <span>

#include "source/embedded_file.h"

namespace shardc::families {

// Returns all files of families/, sorted by name. The build generates the
// table.
std::span<const EmbeddedFile> EmbeddedFamilies();

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_EMBEDDED_H_
