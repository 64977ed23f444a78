// Files of the repository that are embedded in the program.
#ifndef SHARDC_CLI_EMBEDDED_H_
#define SHARDC_CLI_EMBEDDED_H_

#include <span>

#include "target/embedded.h"

namespace shardc::cli {

// The build generates the tables that these functions return, with the entries
// sorted by file name. EmbeddedSchemas() returns the files of schemas/.
std::span<const EmbeddedFile> EmbeddedSchemas();
// Returns the completion scripts. Each entry is named after its shell, such as
// `bash`.
std::span<const EmbeddedFile> EmbeddedCompletions();
// Returns a single file: a table of the linked libraries with the columns name,
// version and licence.
std::span<const EmbeddedFile> EmbeddedLibraries();

}  // namespace shardc::cli

#endif  // SHARDC_CLI_EMBEDDED_H_
