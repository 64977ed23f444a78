// Writes a manifest as text or JSON.
#ifndef SHARDC_EMIT_PLANS_MANIFEST_TEXT_H_
#define SHARDC_EMIT_PLANS_MANIFEST_TEXT_H_

#include <string>

#include "model/manifest.h"
#include "source/sink.h"

namespace shardc {

// The parameters with totals; tensors that differ only in layer numbers share a
// line with their count.
std::string ManifestText(const Manifest& manifest);
// Writes shardc.manifest/v1, one parameter per line.
void WriteManifestJson(const Manifest& manifest, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_MANIFEST_TEXT_H_
