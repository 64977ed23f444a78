// Room: importers. Reads rules and manifests of other systems into the structs
// of src/model. Each format has its own files.
// Includes: source, model, stored.
//
// This file reads a manifest of any format and recognises the format by the
// content. shardc's JSON and nested trees are parsed by the callback `json`,
// because src/importers may not include src/parse. The other formats are
// safetensors and GGUF files, directories of safetensors files, Hugging Face
// indices, and the checkpoints that src/stored reads.
#ifndef SHARDC_IMPORTERS_MANIFEST_H_
#define SHARDC_IMPORTERS_MANIFEST_H_

#include <functional>
#include <optional>
#include <string>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/input_file.h"
#include "source/json.h"

namespace shardc {

using JsonManifestParser =
    std::function<std::optional<Manifest>(const JsonDocument&, Findings&)>;
// Reads a JSON manifest of the most common form without building a
// JsonDocument, which would be slower. Returns nullopt for any other text,
// valid or invalid. The full parser then reads the text.
using PlainManifestReader =
    std::function<std::optional<Manifest>(const SourceRef&)>;
// Reads a manifest of the most common form of shardc's JSON from a file in
// parts, so that the complete text is never in memory. Returns nullopt for any
// other file.
using StreamedManifestReader =
    std::function<std::optional<Manifest>(const InputFile&)>;

struct ManifestOptions {
  bool header_only = false;              // binary files may lack their data
  PlainManifestReader plain = {};        // may be empty
  StreamedManifestReader streamed = {};  // may be empty; for large files
  std::string stdin_name = "<stdin>";
};

// Reads a manifest. The path "-" is standard input. Only the headers of
// safetensors and GGUF files are read, but standard input and gzip files are
// read completely. Returns nullopt after a finding.
std::optional<Manifest> ReadManifest(const std::string& path,
                                     const JsonManifestParser& json,
                                     const ManifestOptions& options,
                                     Findings& findings);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_MANIFEST_H_
