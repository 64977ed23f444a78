// Directory: importers. Reads rules and manifests of other systems into the
// structs of src/model. Each format has its own files.
// Its files include headers of these directories: source, model, stored.
//
// This file reads a manifest of any format, which it recognises by the content.
// There are two JSON formats: shardc's own format, and trees of nested objects
// such as `{"layers": {"up": {"shape": [8], "dtype": "F32"}}}`. The callback
// `json` parses these two, because src/importers may not include src/parse. The
// other formats are safetensors and GGUF files, directories of safetensors
// files, Hugging Face indices, and the checkpoints that src/stored reads.
#ifndef SHARDC_IMPORTERS_MANIFEST_H_
#define SHARDC_IMPORTERS_MANIFEST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/input_file.h"
#include "source/json.h"

namespace shardc {

using JsonManifestParser =
    std::function<std::optional<Manifest>(const JsonDocument&, Findings&)>;
// A function that reads a JSON manifest without unusual syntax, such as escapes
// in names. It is faster than the full parser, because it builds no
// JsonDocument. For any other text, valid or invalid, it returns nullopt, and
// the full parser reads the text.
using PlainManifestReader =
    std::function<std::optional<Manifest>(const SourceRef&)>;
// A function that reads a manifest in shardc's JSON without unusual syntax. It
// reads the file in parts, so that the complete text is never in memory. It
// returns nullopt for any other file.
using StreamedManifestReader =
    std::function<std::optional<Manifest>(const InputFile&)>;

struct ManifestOptions {
  bool header_only = false;              // whether files may lack their data
  PlainManifestReader plain = {};        // may be empty
  StreamedManifestReader streamed = {};  // for large files; may be empty
  std::string stdin_name = "<stdin>";
};

// Reads a manifest. The path "-" means standard input. Only the headers of
// safetensors and GGUF files are read, but standard input and gzip files are
// read completely. Returns nullopt after a finding.
std::optional<Manifest> ReadManifest(const std::string& path,
                                     const JsonManifestParser& json,
                                     const ManifestOptions& options,
                                     Findings& findings);

// Reads GGUF files as manifests, which list names, shapes and data types. In
// shapes, the outermost dimension is first.

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

#endif  // SHARDC_IMPORTERS_MANIFEST_H_
