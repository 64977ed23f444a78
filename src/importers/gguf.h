// Reads GGUF files as manifests: names, shapes (outermost dimension first) and
// data types.
#ifndef SHARDC_IMPORTERS_GGUF_H_
#define SHARDC_IMPORTERS_GGUF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/manifest.h"
#include "source/finding.h"

namespace shardc {

// Recognises the magic, in either byte order.
bool IsGguf(std::string_view first_bytes);

// Reads only the header of the file. `header_only`: the data is absent and the
// file's size is not checked.
std::optional<Manifest> ReadGguf(const std::string& path, bool header_only,
                                 Findings& findings);
// The same for a complete file in memory.
std::optional<Manifest> ParseGguf(const SourceRef& source, bool header_only,
                                  Findings& findings);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_GGUF_H_
