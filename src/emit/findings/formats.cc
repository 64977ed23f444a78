#include "emit/findings/formats.h"

#include <algorithm>
#include <array>

#include "emit/findings/json.h"

namespace shardc {
namespace {

constexpr std::array kFormats = {
#define SHARDC_FINDING_FORMAT(name, write, lists_names) \
  FindingFormat{name, write, lists_names},
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

std::string MessageText(const Finding& finding) {
  const std::vector<std::string>& names = finding.targets;
  if (names.empty()) return finding.message;
  constexpr size_t kShown = 3;
  std::string list;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    list += (i == 0 ? "`" : ", `") + names[i] + "`";
  }
  if (names.size() > kShown) {
    list += " and " + std::to_string(names.size() - kShown) + " more";
  }
  return finding.message + " (in target" + (names.size() == 1 ? " " : "s ") +
         list + ")";
}

std::string PlacedMessageText(const Finding& finding) {
  const std::string text = MessageText(finding);
  if (finding.place.source == nullptr || IsFile(finding.place)) return text;
  return finding.place.ToString() + ": " + text;
}

const Place& FilePlace(const Finding& finding) {
  return IsFile(finding.place) ? finding.place : finding.main_file;
}

bool IsFile(const Place& place) {
  if (place.source == nullptr) return false;
  const std::string& name = place.source->name();
  return !name.empty() && name[0] != '-' && name[0] != '<' &&
         !name.starts_with("builtin:");
}

}  // namespace shardc
