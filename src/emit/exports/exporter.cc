#include "emit/exports/exporter.h"

#include <algorithm>
#include <array>

namespace shardc::exports {
namespace {

constexpr std::array kExporters = {
#define SHARDC_EXPORT(name) &name,
#include "emit/exports/table.h"
#undef SHARDC_EXPORT
};

}  // namespace

std::span<const Exporter* const> Exporters() { return kExporters; }

const Exporter* FindExporter(std::string_view name) {
  const auto* at =
      std::find_if(kExporters.begin(), kExporters.end(),
                   [&](const Exporter* e) { return e->name == name; });
  return at == kExporters.end() ? nullptr : *at;
}

}  // namespace shardc::exports
