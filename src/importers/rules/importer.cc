#include "importers/rules/importer.h"

#include <algorithm>
#include <array>

namespace shardc::imports {
namespace {

constexpr std::array kImporters = {
#define SHARDC_IMPORT(name) &name,
#include "importers/rules/table.h"
#undef SHARDC_IMPORT
};

}  // namespace

std::span<const Importer* const> Importers() { return kImporters; }

const Importer* FindImporter(std::string_view name) {
  const auto* at =
      std::find_if(kImporters.begin(), kImporters.end(),
                   [&](const Importer* i) { return i->name == name; });
  return at == kImporters.end() ? nullptr : *at;
}

}  // namespace shardc::imports
