// Declares the name and the text of a file of this repository that is compiled
// into the library or the program.
#ifndef SHARDC_SOURCE_EMBEDDED_FILE_H_
#define SHARDC_SOURCE_EMBEDDED_FILE_H_

#include <string_view>

namespace shardc {

struct EmbeddedFile {
  std::string_view name;  // without folders: `llama.flax.yaml`
  std::string_view text;
};

}  // namespace shardc

#endif  // SHARDC_SOURCE_EMBEDDED_FILE_H_
