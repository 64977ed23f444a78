#include "importers/eformer.h"

#include "importers/rules/importer.h"
#include "source/json.h"

namespace shardc::imports {
namespace {

std::optional<Imported> ReadEformer(const Request& request,
                                    Findings& findings) {
  const auto document = JsonDocument::Parse(request.source, findings);
  if (!document) return std::nullopt;
  const auto axes = ImportEformerAxes(*document, findings);
  if (!axes) return std::nullopt;
  Imported imported;
  imported.axes = *axes;
  return imported;
}

}  // namespace

constexpr Importer kEformer{
    "eformer", "PartitionAxis in JSON, to the axis rules of a rules file", "",
    ReadEformer};

}  // namespace shardc::imports
