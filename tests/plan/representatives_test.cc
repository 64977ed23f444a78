#include "plan/representatives.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "parse/manifest.h"
#include "parse/mesh.h"
#include "parse/rules.h"
#include "source/json.h"

namespace shardc {
namespace {

// Returns the representatives of these two experts under a rule that places
// them along `ep` by the number that `index` captures.
Representatives PlacedBy(const std::string& mesh, const std::string& index) {
  Findings findings;
  auto read_mesh = ReadMesh(mesh, std::nullopt, findings);
  const std::vector<std::string> files = {"builtin:case"};
  const SourceRef source = MakeSource(
      "rules.yaml",
      "version: 1\nrules:\n  - {match: 'w$', spec: [], place: {axis: ep, "
      "index: '" +
          index + "'}}\n");
  auto rules = ReadRules(
      files, [&](std::string_view) { return source; }, findings);
  const auto document = JsonDocument::Parse(
      MakeSource("m.json",
                 R"({"schema": "shardc.manifest/v1", "separator": ".", "params":
                 {"experts.0.w": {"shape": [4], "dtype": "F32"},
                  "experts.1.w": {"shape": [4], "dtype": "F32"}}})"),
      findings);
  REQUIRE(read_mesh);
  REQUIRE(rules);
  REQUIRE(document != nullptr);
  auto manifest = ParseManifest(*document, findings);
  REQUIRE(manifest);
  const auto compiled = Compile(std::move(*read_mesh), std::move(*rules),
                                std::move(*manifest), {}, findings);
  REQUIRE(compiled != nullptr);
  return RepresentativesOf(*compiled, compiled->rules);
}

TEST_CASE("placed parameters are counted by the index in their names") {
  const Representatives both = PlacedBy("ep:2", R"(experts\.(\d+)\.)");
  REQUIRE(both.placed.size() == 1);
  CHECK(both.placed[0].Along(2) == std::map<int64_t, int64_t>{{0, 1}, {1, 1}});
  CHECK(both.placed[0].Along(1) == std::map<int64_t, int64_t>{{0, 2}});
}

TEST_CASE("names without an index place nothing on a mesh without the axis") {
  const Representatives none = PlacedBy("dp:2", R"(layers\.(\d+)\.)");
  REQUIRE(none.placed.size() == 1);
  CHECK(none.placed[0].Along(2).empty());
}

}  // namespace
}  // namespace shardc
