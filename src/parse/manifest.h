// Reads manifests in shardc's JSON (a list or object of parameters) and nested
// trees whose leaves are {"shape", "dtype"}.
#ifndef SHARDC_PARSE_MANIFEST_H_
#define SHARDC_PARSE_MANIFEST_H_

#include <optional>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

std::optional<Manifest> ParseManifest(const JsonDocument& document,
                                      Findings& findings);

// If the manifest does not state the separator of names, infers it from the
// names. It is `/` or `.`, whichever occurs in more names. If no name contains
// either, the separator stays 0. Adds a finding (`separator`) if both occur in
// equally many names.
void SettleSeparator(Manifest& manifest, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MANIFEST_H_
