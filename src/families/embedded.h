// The descriptions of families that are part of the library.
#ifndef SHARDC_FAMILIES_EMBEDDED_H_
#define SHARDC_FAMILIES_EMBEDDED_H_

#include <span>

#include "source/embedded_file.h"

namespace shardc::families {

// families/, sorted by name. The build writes the table.
std::span<const EmbeddedFile> EmbeddedFamilies();

}  // namespace shardc::families

#endif  // SHARDC_FAMILIES_EMBEDDED_H_
