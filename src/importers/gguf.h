// Reads GGUF files as manifests, which list names, shapes and data types. In
// shapes, the outermost dimension is first.
#ifndef SHARDC_IMPORTERS_GGUF_H_
#define SHARDC_IMPORTERS_GGUF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/manifest.h"
#include "source/finding.h"

namespace shardc {

// Returns whether the bytes begin with the magic number of GGUF, in either byte
// order.
bool IsGguf(std::string_view first_bytes);

// The metadata of a file about the set of files that it belongs to: `split.no`,
// `split.count` and `split.tensors.count`. An absent member is nullopt.
struct GgufSplit {
  std::optional<int64_t> number;   // index of this file, counted from 0
  std::optional<int64_t> count;    // number of files in the set
  std::optional<int64_t> tensors;  // number of tensors in all files of the set
};

// Reads the header of a file. If the file is one of a set
// (`NAME-00001-of-00005.gguf`), reads the headers of all files of the set. A
// set with missing files, or with files of another set, is refused. With
// `header_only` the files may lack their data, and their sizes are not checked.
// Returns nullopt after a finding.
std::optional<Manifest> ReadGguf(const std::string& path, bool header_only,
                                 Findings& findings);
// Reads the header of a single file, even if the file is one of a set, and sets
// `*split`. Returns nullopt after a finding.
std::optional<Manifest> ReadGgufFile(const std::string& path, bool header_only,
                                     GgufSplit* split, Findings& findings);
// Reads the header of a complete file in memory. Returns nullopt after a
// finding. A file that is one of a set is refused.
std::optional<Manifest> ParseGguf(const SourceRef& source, bool header_only,
                                  Findings& findings);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_GGUF_H_
