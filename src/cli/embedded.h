// Files of this repository that are part of the program.
#ifndef SHARDC_CLI_EMBEDDED_H_
#define SHARDC_CLI_EMBEDDED_H_

#include <span>
#include <string_view>

namespace shardc::cli {

struct EmbeddedFile {
  std::string_view name;  // without folders: `llama.flax.yaml`
  std::string_view text;
};

// Sorted by name. The build writes the tables.
std::span<const EmbeddedFile> EmbeddedPacks();    // rules/
std::span<const EmbeddedFile> EmbeddedSchemas();  // schemas/
// By shell: `bash`.
std::span<const EmbeddedFile> EmbeddedCompletions();

}  // namespace shardc::cli

#endif  // SHARDC_CLI_EMBEDDED_H_
