// Compares what the importers make from texts with testdata/tables/imports.txt:
// a rules file and a mesh, or findings with their places.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "emit/plans/rules_file.h"
#include "importers/rules/importer.h"
#include "parse/mesh.h"
#include "tables.h"

namespace shardc::imports {
namespace {

// Returns `SHD022 1:10 message`, and the help on another line.
std::string Text(const Finding& finding) {
  const Place& place = finding.place;
  std::string where = "-";
  if (place.source != nullptr && place.HasPosition()) {
    const LineColumn at = place.source->At(place.begin);
    where = std::to_string(at.line) + ":" + std::to_string(at.column);
  }
  return finding.code->Id() + " " + where + " " + finding.message + "\n" +
         (finding.help.empty() ? "" : "  " + finding.help + "\n");
}

std::string Result(const TableCase& given) {
  Findings findings;
  Request request;
  request.source = MakeSource("in", given.Text("source"));
  request.symbol = given.Text("symbol");
  request.axis = given.Text("axis");
  request.contiguous = given.Find("contiguous") != nullptr;
  if (given.Find("names") != nullptr) {
    request.names = MakeSource("names", given.Text("names"));
  }
  if (given.Find("mesh") != nullptr) {
    request.mesh = ReadMesh(given.Text("mesh"), {}, findings);
    REQUIRE(request.mesh.has_value());
  }
  const Importer* importer = FindImporter(given.Text("format"));
  REQUIRE(importer != nullptr);
  const auto imported = importer->read(request, findings);
  std::string out;
  for (const Finding& finding : findings.all()) out += Text(finding);
  if (!imported) return out;
  if (imported->mesh) out += MeshFileYaml(*imported->mesh);
  out += ImportedFileYaml(*imported);
  return out;
}

TEST_CASE("texts of other systems give these rules or findings") {
  CheckTable("imports.txt", Result);
}

}  // namespace
}  // namespace shardc::imports
