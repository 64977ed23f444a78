// Tests how each input of a target is opened, one input at a time.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "source/file.h"
#include "target/choose.h"
#include "target/open.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

std::vector<std::string> Messages(const Findings& findings) {
  std::vector<std::string> out;
  for (const Finding& finding : findings.all()) out.push_back(finding.message);
  return out;
}

using Texts = std::vector<std::string>;

TEST_CASE("a mesh is named by a file, by axes or in the project file") {
  const TemporaryFolder folder;
  const std::string file = folder.Write("mesh.yaml", "axes: {tp: 4}\n");
  CHECK_FALSE(IsNamed({}));
  const auto input = [](std::string path, std::string text) {
    MeshInput out;
    out.file = std::move(path);
    out.text = std::move(text);
    return out;
  };
  CHECK(IsNamed(input(file, "")));
  CHECK(IsNamed(input("", "tp:4")));
  MeshInput inside;
  inside.inline_place =
      Place{MakeSource("shardc.yaml", "mesh: {axes: {tp: 4}}"), 6, 21};
  CHECK(IsNamed(inside));

  CHECK(MeshPlace(input(file, "")).source->name() == file);
  const SourceRef axes = MeshPlace(input("", "tp:4")).source;
  CHECK(axes->name() == "--mesh");
  CHECK(axes->text() == "tp:4");
  // A value of --mesh that is not an existing file is read as axes.
  const SourceRef flag = MeshPlace(input("dp:2", "")).source;
  CHECK(flag->name() == "--mesh");
  CHECK(flag->text() == "dp:2");
  CHECK(MeshPlace(inside).source == inside.inline_place->source);
  MeshInput text = input("", "tp:4");
  text.text_place = Place{MakeSource("shardc.yaml", "mesh: 'tp:4'"), 6, 12};
  CHECK(MeshPlace(text).ToString() == "shardc.yaml:1:7");
}

TEST_CASE("rules are named as a plan shows them, wherever they are") {
  const TemporaryFolder folder;
  const std::string rules =
      "version: 1\nrules:\n  - match: 'kernel'\n    spec: [TP]\n";
  const std::string a = folder.Write("a/rules.yaml", rules);
  const std::string b = folder.Write("b/rules.yaml", rules);
  const auto names = [&](const std::vector<std::string>& files,
                         const std::string& project) {
    Findings findings;
    const auto read = OpenRules(files, project, nullptr, "", findings);
    REQUIRE(read);
    Texts out;
    for (const Rule& rule : read->rules) {
      if (out.empty() || out.back() != rule.source_name) {
        out.push_back(rule.source_name);
      }
    }
    return out;
  };
  CHECK(names({a, b}, "") == Texts{"rules.yaml", "../b/rules.yaml"});
  CHECK(names({a, b}, folder.path().string()) ==
        Texts{"a/rules.yaml", "b/rules.yaml"});
  CHECK(names({a}, folder / "b") == Texts{"../a/rules.yaml"});
  // A pack keeps its name, and other files' names are not relative to it.
  CHECK(names({"builtin:llama", b}, "") ==
        Texts{"builtin:llama/flax", "rules.yaml"});
}

TEST_CASE("a name without naming takes that of the manifest's names") {
  const auto pack = [](std::vector<std::string> tree, char separator) {
    ManifestBuilder builder;
    for (const std::string& name : tree) builder.Add(name, {});
    builder.manifest().separator = separator;
    const Manifest manifest = builder.Take();
    Findings findings;
    const auto rules =
        OpenRules({"builtin:llama"}, "", &manifest, "", findings);
    REQUIRE(rules);
    return rules->rules[0].source_name;
  };
  CHECK(pack({"a/weight"}, '/') == "builtin:llama/hf");
  CHECK(pack({"a.kernel"}, '.') == "builtin:llama/flax");
  CHECK(pack({"a.weight", "b.kernel"}, '.') == "builtin:llama/flax");
  CHECK(pack({"a.bias"}, '.') == "builtin:llama/hf");
  CHECK(pack({"a/bias"}, '/') == "builtin:llama/flax");
}

TEST_CASE("the help of an unknown tree names the pack of its separator") {
  for (const char separator : {'/', '.'}) {
    const std::string naming = separator == '/' ? "flax" : "hf";
    ManifestBuilder builder;
    builder.Add("unknown", {});
    builder.manifest().separator = separator;
    const Manifest manifest = builder.Take();
    Findings findings;
    CHECK_FALSE(OpenRules({"auto"}, "", &manifest, "", findings));
    REQUIRE(findings.errors() == 1);
    CHECK(findings.all()[0].help.find("builtin:llama/" + naming + " ") !=
          std::string::npos);
    CHECK(findings.all()[0].place.source->name() == "--rules");
  }
}

TEST_CASE("patterns of refused rules are checked as well") {
  const TemporaryFolder folder;
  const std::string file = folder.Write(
      "r.yaml", "rules:\n  - {match: 'a(', spec: [x]}\n  - {match: b}\n");
  Findings findings;
  CHECK_FALSE(OpenRules({file}, "", nullptr, "", findings));
  CHECK(findings.errors() == 2);
}

TEST_CASE("names of each mode's specs are checked") {
  const TemporaryFolder folder;
  const auto messages = [&](const std::string& rule) {
    const std::string file =
        folder.Write("r.yaml", "rules: [{match: a, " + rule + "}]\n");
    Findings findings;
    const auto rules = OpenRules({file}, "", nullptr, "", findings);
    REQUIRE(rules);
    CheckNames(*rules, findings);
    return Messages(findings);
  };
  CHECK(messages("spec: [x], modes: {decode: [y, [x, z]]}").empty());
  CHECK(messages("spec: {like: b}").empty());
  CHECK(messages("spec: [x], modes: {decode: Nothing}") ==
        Texts{"there is no bundle `Nothing`"});
  CHECK(messages("spec: [__X__], modes: {decode: [__Y__]}").size() == 2);
}

TEST_CASE("a manifest that is read alone and without findings is kept") {
  const TemporaryFolder folder;
  const std::string path =
      folder.Write("m.json", R"({"schema": "shardc.manifest/v1", "params": {
  "a.b": {"shape": [2], "dtype": "F32"}}})");
  ManifestCache cache;
  Findings findings;
  const auto read = OpenManifest(path, {}, findings, &cache);
  REQUIRE(read);
  CHECK(read->separator == '.');
  CHECK(cache.Find(path, StampOf(path)).has_value());
  CHECK(OpenManifest(path, {}, findings, &cache)->tensors[0].name == "a.b");
  // A manifest is kept only if there were no findings before it was read.
  const std::string other =
      folder.Write("other.json", R"({"schema": "shardc.manifest/v1", "params": {
  "a/b": {"shape": [2], "dtype": "F32"}}})");
  findings.Add(code::kUsage, {}, "before");
  CHECK(OpenManifest(other, {}, findings, &cache)->separator == '/');
  CHECK_FALSE(cache.Find(other, StampOf(other)).has_value());
}

TEST_CASE("paths of a project are bounded, those of a request are not") {
  const TemporaryFolder folder;
  folder.Write("shardc.yaml", "version: 1\n");
  Target target;
  TargetRequest request;
  const auto bounded = [&] {
    const Boundary boundary = RulesBoundary(target, request);
    return boundary.Holds(folder / "rules.yaml") !=
           boundary.Holds("/elsewhere/rules.yaml");
  };
  CHECK_FALSE(bounded());
  target.project_dir = folder.path().string();
  CHECK(bounded());
  request.rules = {"r.yaml"};
  CHECK_FALSE(bounded());
  request.rules = {};
  request.allow_outside = true;
  CHECK_FALSE(bounded());
}

TEST_CASE("a resolver has the axes of registrations and of the given mesh") {
  const TemporaryFolder folder;
  const std::string rules = folder.Write(
      "r.yaml",
      "register: {MINE: {rule: own}, OTHER: {rule: kv_head}, FORCED: {rule: "
      "{axis: head}}}\npolicy: {illegal: drop}\nrules: []\n");
  Target target;
  target.rules = {rules};
  Findings findings;
  const auto resolve = [&](const std::string& name) {
    const auto opened = OpenResolver(target, std::nullopt, findings);
    REQUIRE(opened);
    CHECK(opened->has_mesh == !target.mesh.text.empty());
    CHECK(opened->policy.illegal == IllegalPolicy::kDrop);
    SpecList list;
    list.entries.emplace_back().names.push_back({name, {}});
    const auto found = opened->resolver.Resolve(list, Mode::kTrain, findings);
    return found ? SpecText(found->spec) : "nothing";
  };
  CHECK(resolve("MINE") == R"(["own"])");
  CHECK(resolve("OTHER") == R"(["tp"])");
  CHECK(resolve("FORCED") == R"(["head"])");
  CHECK(resolve("BATCH") == R"([["fsdp", "dp"]])");
  CHECK(findings.empty());
  target.mesh.text = "own:2,tp:2,head:2";
  CHECK(resolve("MINE") == R"(["own"])");
  CHECK(findings.empty());
}

}  // namespace
}  // namespace shardc
