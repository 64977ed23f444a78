// Python source code that is embedded in the program. The same code is in the
// Python package and in the modules that are exported for JAX.
#ifndef SHARDC_EMIT_EXPORTS_EMBEDDED_H_
#define SHARDC_EMIT_EXPORTS_EMBEDDED_H_

#include <span>

#include "source/embedded_file.h"

namespace shardc::exports {

// Returns one file, python/shardc/arrays.py, which the build embeds.
std::span<const EmbeddedFile> EmbeddedArrays();

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_EMBEDDED_H_
