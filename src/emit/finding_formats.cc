#include "emit/finding_formats.h"

#include <algorithm>
#include <array>

#include "emit/findings_json.h"

namespace shardc {
namespace {

constexpr std::array kFormats = {
    FindingFormat{"text", FindingsText},
    FindingFormat{"concise", FindingsConcise},
    FindingFormat{"json", FindingsJson},
    FindingFormat{"sarif", FindingsSarif},
    FindingFormat{"github", FindingsGithub},
    FindingFormat{"junit", FindingsJunit},
    FindingFormat{"markdown", FindingsMarkdown},
};

}  // namespace

std::span<const FindingFormat> FindingFormats() { return kFormats; }

const FindingFormat* FindFindingFormat(std::string_view name) {
  const auto* at =
      std::find_if(kFormats.begin(), kFormats.end(),
                   [&](const FindingFormat& f) { return f.name == name; });
  return at == kFormats.end() ? nullptr : at;
}

std::string FindingsText(const FindingReport& report) {
  std::string out;
  for (const Finding& finding : report.findings) {
    out += FindingText(finding, report.style);
  }
  return out;
}

std::string FindingsJson(const FindingReport& report) {
  std::string out;
  AppendFindingsJson(out, report.findings, "");
  out += '\n';
  return out;
}

bool IsFile(const Place& place) {
  if (place.source == nullptr) return false;
  const std::string& name = place.source->name();
  return !name.empty() && name[0] != '-' && name[0] != '<' &&
         !name.starts_with("builtin:");
}

}  // namespace shardc
