// libFuzzer target over everything that reads text: built with -Dfuzz=true
// and clang, run as `fuzz_yaml -dict=... CORPUS`. The first byte chooses the
// reader. Besides crashes, hangs and sanitizer reports, it looks for a tree
// or a mesh that comes with errors, and for places outside the text.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "parse/manifest.h"
#include "parse/mesh.h"
#include "parse/operations.h"
#include "parse/rule_file.h"
#include "source/json.h"
#include "yaml/yaml.h"

namespace {

using namespace shardc;

void Require(bool good) {
  if (!good) std::abort();
}

void CheckPlace(const Place& place, size_t size) {
  if (!place.HasPosition()) return;
  Require(place.begin <= place.end && place.end <= size);
}

void CheckNode(const YamlNode& node, size_t size) {
  Require(node.begin <= node.end && node.end <= size);
  for (const YamlNode& item : node.items) CheckNode(item, size);
  for (const YamlMember& member : node.members) {
    CheckNode(member.key, size);
    CheckNode(member.value, size);
  }
}

void ReadTree(const SourceRef& source, Findings& findings) {
  const auto document = YamlDocument::Parse(source, findings);
  if (!document) {
    Require(findings.HasErrors());
    return;
  }
  for (const Finding& finding : findings.all()) {
    Require(finding.code == &code::kDuplicateKey);
  }
  CheckNode(document->root(), source->text().size());
}

void ReadManifestText(const SourceRef& source, Findings& findings) {
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return;
  auto manifest = ParseManifest(*document, findings);
  Require(manifest.has_value() != findings.HasErrors());
  if (manifest) SettleSeparator(*manifest, findings);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const SourceRef source = MakeSource(
      "fuzz", std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  Findings findings;
  switch (data[0] % 6) {
    case 0:
      ReadTree(source, findings);
      break;
    case 1:
      Require(ParseMesh(source, 64, findings).has_value() !=
              findings.HasErrors());
      break;
    case 2:
      Require(ParseMeshString(source, 64, findings).has_value() !=
              findings.HasErrors());
      break;
    case 3:
      Require(ParseRuleFile(source, findings).has_value() ||
              findings.HasErrors());
      break;
    case 4: {
      const KnownOperation known[] = {{"vanilla", kCommonSettings},
                                      {"ring", kCommonSettings}};
      Require(ParseOperations(source, known, findings).has_value() !=
              findings.HasErrors());
      break;
    }
    default:
      ReadManifestText(source, findings);
  }
  for (const Finding& finding : findings.all()) {
    CheckPlace(finding.place, source->text().size());
  }
  return 0;
}
