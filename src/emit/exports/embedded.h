// The Python source that modules for JAX share with the Python package.
#ifndef SHARDC_EMIT_EXPORTS_EMBEDDED_H_
#define SHARDC_EMIT_EXPORTS_EMBEDDED_H_

#include <span>

#include "source/embedded_file.h"

namespace shardc::exports {

// Returns one file, python/shardc/arrays.py. The build generates the table.
std::span<const EmbeddedFile> EmbeddedArrays();

}  // namespace shardc::exports

#endif  // SHARDC_EMIT_EXPORTS_EMBEDDED_H_
