// A manifest and a rule set, shown.
#ifndef SHARDC_EMIT_PLANS_MANIFEST_TEXT_H_
#define SHARDC_EMIT_PLANS_MANIFEST_TEXT_H_

#include <string>

#include "model/manifest.h"
#include "source/sink.h"

namespace shardc {

// The tree with totals: layers that are alike but for their number are one
// line with their count.
std::string ManifestText(const Manifest& manifest);
// shardc.manifest/v1, one parameter a line.
void WriteManifestJson(const Manifest& manifest, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_MANIFEST_TEXT_H_
