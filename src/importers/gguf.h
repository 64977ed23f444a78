// GGUF files as manifests: names, shapes (outermost dimension first) and data
// types.
#ifndef SHARDC_IMPORTERS_GGUF_H_
#define SHARDC_IMPORTERS_GGUF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/manifest.h"
#include "source/finding.h"

namespace shardc {

// By content: the magic, or its bytes swapped.
bool IsGguf(std::string_view first_bytes);

// Reads no more of the file than its header. `header_only`: the data is
// absent and the file's size is not judged.
std::optional<Manifest> ReadGguf(const std::string& path, bool header_only,
                                 Findings& findings);
// The same over the whole file in memory.
std::optional<Manifest> ParseGguf(const SourceRef& source, bool header_only,
                                  Findings& findings);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_GGUF_H_
