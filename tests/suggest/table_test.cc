// Compares the rules that are suggested for public configurations, and the
// order of meshes, with testdata/tables/suggest.txt, and those of small trees
// with suggest_trees.txt.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "emit/plans/rules_file.h"
#include "families/families.h"
#include "parse/mesh.h"
#include "parse/project.h"
#include "suggest/dims.h"
#include "suggest/mesh.h"
#include "suggest/suggest.h"
#include "suggest/tree.h"
#include "tables.h"

namespace shardc::suggest {
namespace {

std::string RealText(double x) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", x);
  return text;
}

// Returns the inferred dimensions of each parameter group, and the reason for
// its spec.
std::string DimsText(const Suggestion& made) {
  std::string out;
  for (size_t g = 0; g < made.dims.groups.size(); ++g) {
    const InferredDims& of = made.dims.groups[g];
    const Choice& choice = made.choices.groups[g];
    out += "# group " + std::to_string(g) + " " +
           std::string(printing::EnumeratorName(of.role));
    for (const Dim& dim : of.dims) {
      out += " " + std::string(printing::EnumeratorName(dim.use)) + " " +
             std::to_string(dim.size);
      if (dim.block != 1) out += " by " + std::to_string(dim.block);
    }
    if (of.IsMatrix()) {
      out += "; inner " + std::to_string(of.inner) + " " +
             std::to_string(of.inner_size) + ", width " +
             std::to_string(of.width) + " " + std::to_string(of.width_size);
    }
    if (of.Experts() > 0) out += ", experts " + std::to_string(of.Experts());
    for (const int64_t unit : of.units) out += " unit " + std::to_string(unit);
    if (of.weight >= 0) out += ", of group " + std::to_string(of.weight);
    if (of.column) out += ", column";
    out += "; " + std::string(printing::EnumeratorName(choice.reason)) +
           (choice.inner_sharded ? ", inner" : "") +
           (choice.width_slices ? ", slices" : "") +
           (choice.ignore_reshard ? ", ignored" : "") + "\n";
  }
  return out;
}

std::string CostsText(const Suggestion& made) {
  const auto pieces = ShardedGroupsOf(made.tree, made.choices);
  const Assumed assumed;
  const Costs costs = CostOf(made.tree, made.dims, made.mesh, pieces, assumed);
  return "# costs: memory " + RealText(costs.memory) + ", state " +
         RealText(costs.state) + ", data " + RealText(costs.data) +
         ", replicas " + RealText(costs.replicas) + ", tensor " +
         RealText(costs.tensor) + ", experts " + RealText(costs.experts) +
         ", flops " + RealText(costs.flops) + ", seconds " +
         RealText(costs.Seconds(assumed)) + ", ratio " +
         RealText(made.Ratio()) + "\n";
}

// The inputs that a case names: the tree of a config.json, a mesh, and the
// config itself unless `model` is none.
struct Inputs {
  Manifest manifest;
  Mesh mesh;
  std::optional<ModelConfig> model;

  const ModelConfig* Model() const { return model ? &*model : nullptr; }
};

Inputs InputsOf(const TableCase& given) {
  const std::string path = std::string(std::getenv("SHARDC_SOURCE_ROOT")) +
                           "/testdata/configs/" + given.Text("config") +
                           ".config.json";
  Findings findings;
  auto manifest = families::BuildTree(path, given.Text("naming"), findings);
  auto mesh = ReadMesh(given.Text("mesh"), {}, findings);
  REQUIRE(manifest.has_value());
  REQUIRE(mesh.has_value());
  Inputs out = {std::move(*manifest), std::move(*mesh), std::nullopt};
  if (given.Text("model") != "none")
    out.model = ReadModelConfig(path, findings);
  return out;
}

std::string Result(const TableCase& given) {
  const Inputs in = InputsOf(given);
  const Suggestion made = Suggest({&in.manifest, &in.mesh, in.Model(), {}});
  std::string out = ImportedFileYaml(made.file);
  out += "# bytes per device " + std::to_string(made.bytes_per_device) + "\n";
  out += CostsText(made) + DimsText(made);
  if (!made.misfit.empty()) out += "# misfit: " + made.misfit + "\n";
  if (given.Find("memory") == nullptr) return out;
  MeshRequest request;
  request.devices = in.mesh.devices;
  request.memory = std::stoll(given.Text("memory"));
  const auto options = MeshesFor(made.tree, in.Model(), request, {});
  for (size_t i = 0; i < std::min<size_t>(options.size(), 12); ++i) {
    out += "# " + MeshText(options[i].mesh) +
           (options[i].fits ? "" : ", does not fit") + ", holds " +
           RealText(options[i].bytes) + ", " +
           RealText(options[i].nanoseconds) + " ns a token\n";
  }
  return out + "# " + std::to_string(options.size()) + " meshes\n";
}

TEST_CASE("rules and meshes for public configurations") {
  CheckTable("suggest.txt", Result);
}

// Returns a spec as rules have it: "[HEAD, [FSDP, SP], null]".
std::string SpecText(const AxisSpec& spec) {
  std::string out;
  for (const auto& dim : spec) {
    out += out.empty() ? "[" : ", ";
    std::string names;
    for (const AxisAssignment& one : dim) {
      names += (names.empty() ? "" : ", ") + one.axis;
    }
    out += dim.empty() ? "null" : dim.size() > 1 ? "[" + names + "]" : names;
  }
  return spec.empty() ? "Replicated" : out + "]";
}

// Returns a line for each parameter group: its name, shape, role and choice.
std::string ChoicesText(const Suggestion& made) {
  std::string out;
  for (size_t g = 0; g < made.tree.groups.size(); ++g) {
    const ParameterGroup& group = made.tree.groups[g];
    const Choice& choice = made.choices.groups[g];
    out += group.name;
    for (const int64_t size : group.shape) out += " " + std::to_string(size);
    out += " (" + std::to_string(group.count()) + "): " +
           std::string(printing::EnumeratorName(made.dims.groups[g].role)) +
           " " + SpecText(choice.spec);
    if (!choice.place_axis.empty()) out += " experts over " + choice.place_axis;
    if (choice.reason != Reason::kUsual) {
      out += " " + std::string(printing::EnumeratorName(choice.reason));
    }
    out += "\n";
  }
  return out;
}

TEST_CASE("specs of every public configuration, on meshes of many shapes") {
  CheckTable("suggest_configs.txt", [](const TableCase& given) {
    const Inputs in = InputsOf(given);
    const std::string preferred = given.Text("prefer");
    const Suggestion made =
        Suggest({&in.manifest,
                 &in.mesh,
                 in.Model(),
                 {.prefer_traffic = preferred == "traffic",
                  .place_experts = preferred == "experts placed"}});
    std::string out = ChoicesText(made);
    out += std::to_string(made.file.rules.size()) + " rules, " +
           std::to_string(made.bytes_per_device) + " bytes per device" +
           (made.patterns.proven ? "" : ", not proven") + "\n";
    if (!made.misfit.empty()) out += "misfit: " + made.misfit + "\n";
    return out;
  });
}

// Returns the tensor of a line such as "a.weight 8 4 BF16".
NamedShape TensorOf(const std::string& line) {
  std::istringstream words(line);
  NamedShape out;
  words >> out.name;
  std::vector<std::string> rest{std::istream_iterator<std::string>(words), {}};
  REQUIRE_FALSE(rest.empty());
  const auto dtype = ParseDtype(rest.back());
  REQUIRE_MESSAGE(dtype.has_value(), line);
  out.dtype = *dtype;
  rest.pop_back();
  for (const std::string& size : rest) out.shape.push_back(std::stoll(size));
  return out;
}

TEST_CASE("rules for trees that store their matrices in many ways") {
  CheckTable("suggest_trees.txt", [](const TableCase& given) {
    std::vector<NamedShape> tensors;
    std::istringstream lines(given.Text("tensors"));
    for (std::string line; std::getline(lines, line);) {
      tensors.push_back(TensorOf(line));
    }
    const Manifest manifest =
        ManifestOf(tensors, given.Text("separator").front());
    Findings findings;
    const auto mesh = ReadMesh(given.Text("mesh"), {}, findings);
    REQUIRE(mesh.has_value());
    const Suggestion made = Suggest({&manifest, &*mesh, nullptr, {}});
    std::string out = ImportedFileYaml(made.file) + CostsText(made);
    out += DimsText(made);
    if (!made.misfit.empty()) out += "# misfit: " + made.misfit + "\n";
    return out;
  });
}

TEST_CASE("specs and patterns of small trees on meshes of many shapes") {
  CheckTable("suggest_meshes.txt", [](const TableCase& given) {
    std::vector<NamedShape> tensors;
    std::istringstream lines(given.Text("tensors"));
    for (std::string line; std::getline(lines, line);) {
      tensors.push_back(TensorOf(line));
    }
    const std::string separator = given.Text("separator");
    const Manifest manifest =
        ManifestOf(tensors, separator.empty() ? '\0' : separator.front());
    Findings findings;
    const auto mesh = ReadMesh(given.Text("mesh"), {}, findings);
    REQUIRE(mesh.has_value());
    const Suggestion made = Suggest({&manifest, &*mesh, nullptr, {}});
    std::string out = ChoicesText(made);
    for (const ImportedRule& one : made.file.rules) {
      out +=
          "rule " + one.rule.match + " " + SpecSourceText(one.rule.spec) + "\n";
      for (const std::string& line : one.comments) out += "  " + line + "\n";
    }
    if (!made.misfit.empty()) out += "misfit: " + made.misfit + "\n";
    return out;
  });
}

}  // namespace
}  // namespace shardc::suggest
