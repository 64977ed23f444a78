// Reads malformed and hostile files of shardc's own formats. Each must be
// accepted or refused as EXPECT.json states, with the expected code at the
// expected line.
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "match/match.h"
#include "parse/manifest.h"
#include "parse/mesh.h"
#include "parse/rules.h"
#include "source/file.h"
#include "source/json.h"

namespace shardc {
namespace {

// Cases for which EXPECT.json only recommends a verdict, and shardc has another
// one.
struct Difference {
  std::string_view file;
  std::string_view reason;
};
constexpr std::array<Difference, 2> kDifferences = {{
    {"rules_rules_empty.yaml", "a rules file may hold settings only"},
    {"json_shape_null.json", "null means that only the name is known"},
}};

std::string Folder() {
  const char* root = std::getenv("SHARDC_SOURCE_ROOT");
  return std::string(root == nullptr ? "." : root) + "/testdata/hostile/";
}

std::string Text(const JsonValue& object, std::string_view key) {
  const auto value = object.Find(key);
  return value && value->IsString() ? std::string(value->string()) : "";
}

bool Flag(const JsonValue& object, std::string_view key) {
  const auto value = object.Find(key);
  return value && value->kind() == JsonKind::kBool && value->boolean();
}

void ReadMeshFile(const std::string& path, Findings& findings) {
  ReadMesh(path, std::nullopt, findings);
}

// Reads a rules file and compiles its patterns, as `shardc show rules` does.
void ReadRulesFile(const std::string& path, Findings& findings) {
  const std::vector<std::string> files = {path};
  const auto rules = ReadRules(files, {}, findings);
  if (!rules) return;
  std::vector<Pattern> patterns;
  for (const Rule& rule : rules->rules) {
    patterns.push_back({rule.match, rule.match_place, rule.separator});
  }
  Matcher::Compile(patterns, findings);
}

void ReadManifestFile(const std::string& path, Findings& findings) {
  const SourceRef source = ReadSource(path, findings);
  if (source == nullptr) return;
  const auto document = JsonDocument::Parse(source, findings);
  if (document == nullptr) return;
  auto manifest = ParseManifest(*document, findings);
  if (manifest) SettleSeparator(*manifest, findings);
}

using FileReader = void (*)(const std::string&, Findings&);

bool HasCode(const Findings& findings, std::string_view classes, int line) {
  for (const Finding& finding : findings.all()) {
    bool named = false;
    std::string_view rest = classes;
    while (!rest.empty()) {
      const size_t bar = std::min(rest.find('|'), rest.size());
      named |= finding.code->name == rest.substr(0, bar);
      rest.remove_prefix(std::min(bar + 1, rest.size()));
    }
    const bool here =
        line == 0 ||
        (finding.place.HasPosition() &&
         finding.place.source->At(finding.place.begin).line == line);
    if (named && here) return true;
  }
  return false;
}

std::string Shown(const Findings& findings) {
  std::string out;
  for (const Finding& finding : findings.all()) {
    out += finding.place.ToString() + ": " + std::string(finding.code->name) +
           ": " + finding.message + " (" + finding.help + ")\n";
  }
  return out;
}

TEST_CASE("hostile files of our formats get their verdict") {
  const std::map<std::string, FileReader> readers = {
      {"yaml-mesh", ReadMeshFile},
      {"yaml-rules", ReadRulesFile},
      {"json-manifest", ReadManifestFile}};
  Findings none;
  const SourceRef source = ReadSource(Folder() + "EXPECT.json", none);
  REQUIRE(source != nullptr);
  const auto expect = JsonDocument::Parse(source, none);
  REQUIRE(expect != nullptr);
  std::map<std::string, int> counts;
  size_t differences = 0;
  for (const JsonValue entry : expect->root().items()) {
    const auto reader = readers.find(Text(entry, "kind"));
    if (reader == readers.end()) continue;
    ++counts[reader->first];
    const std::string file = Text(entry, "file");
    const std::string why = Text(entry, "why");
    CAPTURE(file);
    CAPTURE(why);
    Findings findings;
    reader->second(Folder() + file, findings);
    CAPTURE(Shown(findings));
    bool reject = Text(entry, "expect") == "reject";
    const std::string classes = Text(entry, "class");
    for (const Difference& difference : kDifferences) {
      if (difference.file != file) continue;
      CHECK(Flag(entry, "policy"));
      reject = !reject;
      ++differences;
    }
    CHECK(findings.HasErrors() == reject);
    if (!reject || !findings.HasErrors()) continue;
    const auto line = entry.Find("line");
    CHECK(HasCode(findings, classes,
                  line ? static_cast<int>(line->integer()) : 0));
    // The findings must stay short, however hostile the file.
    CHECK(Shown(findings).size() < 4096);
  }
  CHECK(differences == kDifferences.size());
  CHECK(counts["yaml-mesh"] == 93);
  CHECK(counts["yaml-rules"] == 60);
  CHECK(counts["json-manifest"] == 47);
}

}  // namespace
}  // namespace shardc
