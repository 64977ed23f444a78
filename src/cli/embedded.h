// Files of this repository that only the program has.
#ifndef SHARDC_CLI_EMBEDDED_H_
#define SHARDC_CLI_EMBEDDED_H_

#include <span>

#include "target/embedded.h"

namespace shardc::cli {

// Sorted by name. The build writes the tables.
std::span<const EmbeddedFile> EmbeddedSchemas();  // schemas/
// By shell: `bash`.
std::span<const EmbeddedFile> EmbeddedCompletions();

}  // namespace shardc::cli

#endif  // SHARDC_CLI_EMBEDDED_H_
