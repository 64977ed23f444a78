// Compares the rules that are suggested for public configurations, and the
// order of meshes, with testdata/tables/suggest.txt.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "emit/plans/rules_file.h"
#include "families/families.h"
#include "parse/mesh.h"
#include "parse/project.h"
#include "suggest/mesh.h"
#include "suggest/suggest.h"
#include "tables.h"

namespace shardc::suggest {
namespace {

std::string Result(const TableCase& given) {
  const std::string path = std::string(std::getenv("SHARDC_SOURCE_ROOT")) +
                           "/testdata/configs/" + given.Text("config") +
                           ".config.json";
  Findings findings;
  const auto manifest =
      families::BuildTree(path, given.Text("naming"), findings);
  const auto mesh = ReadMesh(given.Text("mesh"), {}, findings);
  REQUIRE(manifest.has_value());
  REQUIRE(mesh.has_value());
  std::optional<ModelConfig> model;
  if (given.Text("model") != "none") model = ReadModelConfig(path, findings);
  const Suggestion made =
      Suggest({&*manifest, &*mesh, model ? &*model : nullptr, {}});
  std::string out = ImportedFileYaml(made.file);
  out += "# bytes per device " + std::to_string(made.bytes_per_device) + "\n";
  if (!made.misfit.empty()) out += "# misfit: " + made.misfit + "\n";
  if (given.Find("memory") == nullptr) return out;
  MeshRequest request;
  request.devices = mesh->devices;
  request.memory = std::stoll(given.Text("memory"));
  const auto options =
      MeshesFor(made.tree, model ? &*model : nullptr, request, {});
  for (size_t i = 0; i < std::min<size_t>(options.size(), 12); ++i) {
    out += "# " + MeshText(options[i].mesh) +
           (options[i].fits ? "" : ", does not fit") + "\n";
  }
  return out + "# " + std::to_string(options.size()) + " meshes\n";
}

TEST_CASE("rules and meshes for public configurations") {
  CheckTable("suggest.txt", Result);
}

}  // namespace
}  // namespace shardc::suggest
