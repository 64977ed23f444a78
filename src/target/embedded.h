// Files of this repository that are part of the library or the program.
#ifndef SHARDC_TARGET_EMBEDDED_H_
#define SHARDC_TARGET_EMBEDDED_H_

#include <span>
#include <string_view>

namespace shardc {

struct EmbeddedFile {
  std::string_view name;  // without folders: `llama.flax.yaml`
  std::string_view text;
};

// rules/, sorted by name. The build writes the table.
std::span<const EmbeddedFile> EmbeddedPacks();

}  // namespace shardc

#endif  // SHARDC_TARGET_EMBEDDED_H_
