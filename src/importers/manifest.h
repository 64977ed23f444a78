// Room: importers. Other systems' rules and manifests to model, one file per
// format, listed in table.cc. Knows source and model.
//
// Reading a manifest whatever its kind, found by content: shardc's JSON and
// nested trees (through the `json` callback, as parse is a sibling room),
// safetensors files, directories of them, Hugging Face indices.
#ifndef SHARDC_IMPORTERS_MANIFEST_H_
#define SHARDC_IMPORTERS_MANIFEST_H_

#include <functional>
#include <optional>
#include <string>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

using JsonManifestParser =
    std::function<std::optional<Manifest>(const JsonDocument&, Findings&)>;
// Reads what it can without a document, and leaves the rest to the other.
using PlainManifestReader =
    std::function<std::optional<Manifest>(const SourceRef&)>;

struct ManifestOptions {
  bool header_only = false;        // headers are not checked against file sizes
  PlainManifestReader plain = {};  // may be empty
  std::string stdin_name = "<stdin>";
};

// "-" is standard input. Only headers are read of safetensors files.
std::optional<Manifest> ReadManifest(const std::string& path,
                                     const JsonManifestParser& json,
                                     const ManifestOptions& options,
                                     Findings& findings);

}  // namespace shardc

#endif  // SHARDC_IMPORTERS_MANIFEST_H_
