// Manifests in shardc's JSON (list or object of params) and nested trees
// whose leaves are {"shape", "dtype"}.
#ifndef SHARDC_PARSE_MANIFEST_H_
#define SHARDC_PARSE_MANIFEST_H_

#include <optional>

#include "model/manifest.h"
#include "source/finding.h"
#include "source/json.h"

namespace shardc {

std::optional<Manifest> ParseManifest(const JsonDocument& document,
                                      Findings& findings);

// The separator by CONTRACT: the manifest's own, else the one that most
// names hold; a tie is an error (`separator`) where some name holds one.
void SettleSeparator(Manifest& manifest, Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_MANIFEST_H_
