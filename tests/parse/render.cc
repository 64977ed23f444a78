#include "parse/render.h"

#include <cstdlib>
#include <vector>

#include "parse/manifest.h"
#include "parse/mesh.h"
#include "parse/project.h"
#include "parse/rules.h"
#include "source/wording.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

std::string At(const Place& place) {
  if (!place.HasPosition()) return "-";
  const LineColumn at = place.source->At(place.begin);
  return std::to_string(at.line) + ":" + std::to_string(at.column);
}

}  // namespace

std::string Render(Findings& findings) {
  findings.Sort();
  std::string out;
  for (const Finding& finding : findings.all()) {
    out += At(finding.place) + ": " + std::string(LevelName(finding.level)) +
           ": " + Printable(finding.message) + " [" +
           std::string(finding.code->name) + "]\n";
    for (const Label& label : finding.labels) {
      out += "    " + At(label.place) + ": " + label.text + "\n";
    }
    if (!finding.help.empty()) out += "    " + finding.help + "\n";
  }
  return out;
}

std::string FindingsOf(std::string_view kind, std::string_view text) {
  Findings findings;
  const TemporaryFolder folder;
  const std::string prefix = folder / "";
  if (kind == "mesh") {
    ParseMesh(MakeSource("mesh.yaml", std::string(text)), std::nullopt,
              findings);
  } else if (kind == "text") {
    ParseMeshString(MakeSource("--mesh", std::string(text)), std::nullopt,
                    findings);
  } else if (kind == "rules") {
    const std::vector<std::string> files = {folder.Write("rules.yaml", text)};
    ReadRules(files, {}, findings);
  } else if (kind == "manifest") {
    const auto document = JsonDocument::Parse(
        MakeSource("manifest.json", std::string(text)), findings);
    if (document != nullptr) {
      auto manifest = ParseManifest(*document, findings);
      if (manifest) SettleSeparator(*manifest, findings);
    }
  } else if (kind == "project") {
    ReadProject(folder.Write("shardc.yaml", text), findings);
  } else {
    std::abort();
  }
  std::string out = Render(findings);
  for (size_t at = out.find(prefix); at != std::string::npos;
       at = out.find(prefix)) {
    out.erase(at, prefix.size());
  }
  return out;
}

}  // namespace shardc
