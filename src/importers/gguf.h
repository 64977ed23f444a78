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

// Returns whether the bytes begin with GGUF's magic, in either byte order.
bool IsGguf(std::string_view first_bytes);

// The metadata of a file about the set that it belongs to: `split.no`,
// `split.count` and `split.tensors.count`; nullopt for absent members.
struct GgufSplit {
  std::optional<int64_t> number;   // the number of this file, from 0
  std::optional<int64_t> count;    // how many files the set has
  std::optional<int64_t> tensors;  // how many tensors all files have together
};

// Reads only the headers of the file and, if it is one of several
// (`NAME-00001-of-00005.gguf`), of all files of its set; a set with missing or
// foreign files is refused. With `header_only` the files may lack their data,
// and their sizes are not checked. Returns nullopt after a finding.
std::optional<Manifest> ReadGguf(const std::string& path, bool header_only,
                                 Findings& findings);
// Reads the header of this file alone, even if it is one of several, and sets
// `split`. Returns nullopt after a finding.
std::optional<Manifest> ReadGgufFile(const std::string& path, bool header_only,
                                     GgufSplit* split, Findings& findings);
// Reads the header of a complete file in memory. Returns nullopt after a
// finding; a file that is one of several of a set is refused.
std::optional<Manifest> ParseGguf(const SourceRef& source, bool header_only,
                                  Findings& findings);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_GGUF_H_
