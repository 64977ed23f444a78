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

// What a file states about the set that it belongs to: the metadata
// `split.no`, `split.count` and `split.tensors.count`.
struct GgufSplit {
  std::optional<int64_t> number;   // of this file, from 0
  std::optional<int64_t> count;    // of files
  std::optional<int64_t> tensors;  // of all files together
};

// Reads only the headers of the file and, if it is one of several
// (`NAME-00001-of-00005.gguf`), of all files of its set; a set with missing or
// foreign files is refused. `header_only`: the data is absent and the files'
// sizes are not checked.
std::optional<Manifest> ReadGguf(const std::string& path, bool header_only,
                                 Findings& findings);
// Reads the header of this file alone, and sets `split`.
std::optional<Manifest> ReadGgufFile(const std::string& path, bool header_only,
                                     GgufSplit* split, Findings& findings);
// Reads the header of a complete file in memory. A file that is one of several
// of a set is refused.
std::optional<Manifest> ParseGguf(const SourceRef& source, bool header_only,
                                  Findings& findings);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_GGUF_H_
