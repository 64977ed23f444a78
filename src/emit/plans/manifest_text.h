// Writes a manifest as text or JSON.
#ifndef SHARDC_EMIT_PLANS_MANIFEST_TEXT_H_
#define SHARDC_EMIT_PLANS_MANIFEST_TEXT_H_

#include <string>

#include "model/manifest.h"
#include "source/sink.h"

namespace shardc {

// Returns the parameters and totals as text. Tensors of the same shape and
// dtype whose names differ only in numbers, such as the tensors of layers,
// share a line with their count.
std::string ManifestText(const Manifest& manifest);
// Writes shardc.manifest/v1, with one parameter per line.
void WriteManifestJson(const Manifest& manifest, Sink& out);

}  // namespace shardc

#endif  // SHARDC_EMIT_PLANS_MANIFEST_TEXT_H_
