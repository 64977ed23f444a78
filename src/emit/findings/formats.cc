#include "emit/findings/formats.h"

#include <algorithm>
#include <array>

#include "emit/findings/json.h"

namespace shardc {
namespace {

constexpr std::array kFormats = {
#define SHARDC_FINDING_FORMAT(name, write) FindingFormat{name, write},
#include "emit/findings/table.h"
#undef SHARDC_FINDING_FORMAT
};

}  // namespace

std::span<const FindingFormat> FindingFormats() { return kFormats; }

const FindingFormat* FindFindingFormat(std::string_view name) {
  const auto* at =
      std::find_if(kFormats.begin(), kFormats.end(),
                   [&](const FindingFormat& f) { return f.name == name; });
  return at == kFormats.end() ? nullptr : at;
}

void FindingsText(const FindingReport& report, Sink& out) {
  for (const Finding& finding : report.findings) {
    out.Append(FindingText(finding, report.style));
  }
}

void FindingsJson(const FindingReport& report, Sink& out) {
  JsonWriter json(out);
  WriteFindings(json, report.findings);
  out.Put('\n');
}

bool IsFile(const Place& place) {
  if (place.source == nullptr) return false;
  const std::string& name = place.source->name();
  return !name.empty() && name[0] != '-' && name[0] != '<' &&
         !name.starts_with("builtin:");
}

}  // namespace shardc
