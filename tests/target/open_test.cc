#include "target/open.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "source/file.h"
#include "target/choose.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

constexpr std::string_view kManifest =
    R"({"schema": "shardc.manifest/v1", "params": {
  "model.layers.0.self_attn.q_proj.weight": {"shape": [64, 32], "dtype": "F32"},
  "model.layers.0.mlp.gate_proj.weight": {"shape": [128, 32], "dtype": "F32"}}}
)";

Target TargetIn(const TemporaryFolder& folder) {
  folder.Write("m.json", kManifest);
  Target target;
  target.mesh.text = "fsdp:2,tp:4";
  target.rules = {"auto"};
  target.manifest = folder / "m.json";
  return target;
}

std::vector<std::string> Messages(const Findings& findings) {
  std::vector<std::string> out;
  for (const Finding& finding : findings.all()) out.push_back(finding.message);
  return out;
}

TEST_CASE("a target compiles with the pack that its names select") {
  const TemporaryFolder folder;
  Findings findings;
  auto opened = OpenTarget(TargetIn(folder), {}, findings);
  REQUIRE(opened);
  CHECK(opened->rules.rules[0].source_name == "builtin:llama/hf");
  CHECK(opened->options.threads >= 1);
  const auto compiled = CompileTarget(std::move(*opened), findings);
  REQUIRE(compiled);
  CHECK(findings.empty());
  CHECK(compiled->plan.params.size() == 2);
  CHECK_FALSE(compiled->HasUnmatched());
  CHECK(compiled->mesh.devices == 8);
}

// A manifest of 20,000 parameters, longer than 1 MiB.
std::string LargeManifest() {
  std::string out = R"({"schema": "shardc.manifest/v1", "params": [)";
  for (int i = 0; i < 20'000; ++i) {
    out += std::string(i == 0 ? "" : ",") + "\n{\"name\": \"model.layers." +
           std::to_string(i / 4) + ".part_" + std::to_string(i % 4) +
           ".weight\", \"shape\": [" + std::to_string(64 << i % 4) +
           ", 32], \"dtype\": \"F32\"}";
  }
  return out + "]}\n";
}

TEST_CASE("a large manifest is read without its text") {
  const TemporaryFolder folder;
  const std::string path = folder.Write("m.json", LargeManifest());
  Findings findings;
  const auto manifest = OpenManifest(path, {}, findings);
  REQUIRE(manifest);
  CHECK(findings.empty());
  REQUIRE(manifest->tensors.size() == 20'000);
  CHECK(manifest->tensors[6].name == "model.layers.1.part_2.weight");
  CHECK(manifest->TypeOf(manifest->tensors[6]).shape == Shape{256, 32});
  CHECK(manifest->types.size() == 4);
  CHECK(manifest->separator == '.');
  CHECK(manifest->source->name() == path);
  CHECK(manifest->source->text().empty());
  CHECK(findings.WasRead(FileIdOf(path)));
}

TEST_CASE("an error behind the first megabyte has its line and column") {
  const TemporaryFolder folder;
  std::string text = LargeManifest();
  const size_t last = text.rfind("[512, 32]");
  REQUIRE(last > size_t{1} << 20);
  text.replace(last, 9, "[512, -3]");
  Findings findings;
  CHECK_FALSE(OpenManifest(folder.Write("m.json", text), {}, findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].place.ToString() == folder / "m.json:20001:60");
  CHECK(findings.all()[0].message ==
        "a dimension of `model.layers.4999.part_3.weight` is `-3`, less than "
        "0");
}

TEST_CASE("a name given twice in a large manifest is reported") {
  const TemporaryFolder folder;
  std::string text = LargeManifest();
  text.replace(text.rfind("part_3"), 6, "part_2");
  Findings findings;
  CHECK_FALSE(OpenManifest(folder.Write("m.json", text), {}, findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].code->name == code::kDuplicateKey.name);
  CHECK(findings.all()[0].place.ToString() == folder / "m.json:20001:10");
}

TEST_CASE("options win over the target") {
  const TemporaryFolder folder;
  Target target = TargetIn(folder);
  target.modes = {Mode::kDecode};
  OpenOptions options;
  Findings findings;
  CHECK(OpenTarget(target, options, findings)->options.modes == target.modes);
  options.modes = {Mode::kTrain};
  options.threads = 3;
  options.policy.min_size = 7;
  options.mesh = Mesh{};
  options.mesh->axes = {{"tp", 2}};
  options.mesh->devices = 2;
  target.mesh = {};  // replaced by the options' mesh
  const auto opened = OpenTarget(target, options, findings);
  REQUIRE(opened);
  CHECK(findings.empty());
  CHECK(opened->options.modes == std::vector<Mode>{Mode::kTrain});
  CHECK(opened->options.threads == 3);
  CHECK(opened->options.policy.min_size == 7);
  CHECK(opened->mesh.devices == 2);
}

TEST_CASE("processes divide the devices of the mesh") {
  const TemporaryFolder folder;
  OpenOptions options;
  options.processes = 4;
  Findings findings;
  const auto opened = OpenTarget(TargetIn(folder), options, findings);
  REQUIRE(opened);
  CHECK(opened->mesh.processes == 4);
  options.processes = 3;
  CHECK_FALSE(OpenTarget(TargetIn(folder), options, findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].message ==
        "8 devices cannot be divided among 3 processes");
  CHECK(findings.all()[0].place.source->name() == "--processes");
  CHECK(findings.all()[0].place.end == 1);
}

TEST_CASE("missing inputs are one finding") {
  const auto told = [](const Target& target) {
    Findings findings;
    CHECK_FALSE(OpenTarget(target, {}, findings));
    return Messages(findings);
  };
  Target target;
  CHECK(told(target) ==
        std::vector<std::string>{"no mesh, no rules and no manifest given"});
  target.mesh.text = "tp:2";
  CHECK(told(target) ==
        std::vector<std::string>{"no rules and no manifest given"});
  target.manifest = "m.json";
  CHECK(told(target) == std::vector<std::string>{"no rules given"});
}

TEST_CASE("inputs that a project's target lacks are named as its keys") {
  Target target;
  target.name = "train";
  target.mesh.text = "tp:2";
  Findings findings;
  CHECK_FALSE(OpenTarget(target, {}, findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].help ==
        "add `rules: auto` and `manifest: FILE` to the target");
}

TEST_CASE("all files are read before the target is refused") {
  const TemporaryFolder folder;
  Target target = TargetIn(folder);
  target.mesh.text = "tp:zero";
  target.rules = {"builtin:lama"};
  target.model = folder / "none.json";
  Findings findings;
  CHECK_FALSE(OpenTarget(target, {}, findings));
  CHECK(findings.errors() == 3);
}

TEST_CASE("unknown packs, and `auto` without a manifest, are reported") {
  Findings findings;
  CHECK_FALSE(OpenRules({"builtin:lama"}, "", nullptr, "", findings));
  CHECK_FALSE(OpenRules({"auto"}, "", nullptr, "", findings));
  CHECK_FALSE(OpenRules({}, "", nullptr, "", findings));
  REQUIRE(findings.all().size() == 3);
  CHECK(findings.all()[0].message == "there is no rule pack `builtin:lama`");
  CHECK(findings.all()[0].code->name == code::kReference.name);
  CHECK(findings.all()[0].help == "did you mean `builtin:llama`?");
  CHECK(findings.all()[1].message ==
        "`auto` chooses a pack by the names of a manifest, and none is given");
  CHECK(findings.all()[2].message == "no rules are given");
}

TEST_CASE("a pack without a naming is of the manifest's, or of its only one") {
  Findings findings;
  const auto rules = OpenRules({"builtin:falcon"}, "", nullptr, "", findings);
  REQUIRE(rules);
  CHECK(rules->rules.front().source_name.starts_with("builtin:falcon/hf"));
  ManifestBuilder builder;
  builder.Add("transformer/h/0/mlp/kernel", {});
  builder.manifest().separator = '/';
  const Manifest flax = builder.Take();
  CHECK_FALSE(OpenRules({"builtin:falcon"}, "", &flax, "", findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].message ==
        "`builtin:falcon` has no rules for Flax names, which the manifest has");
}

TEST_CASE("`auto` alone takes the names of the target's manifest or model") {
  const TemporaryFolder folder;
  folder.Write("m.json", R"({"model.layers.0.self_attn.q_proj.weight":)"
                         R"( {"shape": [8, 8], "dtype": "F32"},)"
                         R"( "model.layers.0.mlp.gate_proj.weight":)"
                         R"( {"shape": [8, 8], "dtype": "F32"}})");
  folder.Write("config.json",
               R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 8,)"
               R"( "intermediate_size": 8, "num_hidden_layers": 1,)"
               R"( "num_attention_heads": 2})");
  for (const bool builds : {false, true}) {
    CAPTURE(builds);
    Target target;
    target.rules = {"auto"};
    (builds ? target.model : target.manifest) =
        folder / (builds ? "config.json" : "m.json");
    Findings findings;
    const auto rules = OpenRulesAlone(target, findings);
    CHECK(findings.empty());
    REQUIRE(rules);
    CHECK(rules->rules[0].source_name == "builtin:llama/hf");
  }
}

TEST_CASE(
    "sources of rules are relative to the project, or to the first file") {
  const TemporaryFolder folder;
  constexpr std::string_view kRules =
      "version: 1\nrules:\n  - match: 'kernel'\n    spec: [TP]\n";
  const std::string file = folder.Write("rules/ours.yaml", kRules);
  Findings findings;
  const auto beside = OpenRules({file}, "", nullptr, "", findings);
  CHECK(beside->rules[0].source_name == "ours.yaml");
  const auto inside =
      OpenRules({file}, folder.path().string(), nullptr, "", findings);
  CHECK(inside->rules[0].source_name == "rules/ours.yaml");
  CHECK(findings.empty());
}

TEST_CASE("an input that is not named is a finding") {
  Findings findings;
  CHECK_FALSE(OpenMesh({}, std::nullopt, findings));
  CHECK_FALSE(OpenManifest("", {}, findings));
  CHECK(Messages(findings) ==
        std::vector<std::string>{"no mesh is given", "no manifest is given"});
}

TEST_CASE("without a mesh a resolver has every axis that the rules name") {
  Findings findings;
  const auto resolver = OpenResolver({}, std::nullopt, findings);
  REQUIRE(resolver);
  SpecList list;
  list.entries.emplace_back().names.push_back({"HEAD", {}});
  const auto resolved =
      resolver->resolver.Resolve(list, Mode::kTrain, findings);
  REQUIRE(resolved);
  CHECK(resolved->spec == Spec{{"tp"}});
  CHECK(findings.empty());
}

TEST_CASE("a resolver needs no target of a project with several") {
  const TemporaryFolder folder;
  folder.Write("shardc.yaml", R"(version: 1
targets:
  a: {mesh: 'tp:4', rules: [a.yaml], manifest: m.json}
  b: {mesh: 'dp:4', rules: [b.yaml], manifest: m.json}
)");
  TargetRequest request;
  request.mesh = "tp:2";
  Findings findings;
  const auto loose = ChooseForResolver(request, findings);
  REQUIRE(loose);
  CHECK(loose->mesh.file == "tp:2");
  CHECK(findings.empty());
  // If the project is given by its file, a target must be chosen.
  request.project = folder / "shardc.yaml";
  CHECK_FALSE(ChooseForResolver(request, findings));
  CHECK(findings.errors() == 1);
}

TEST_CASE("names in specs that no mesh can have are reported") {
  const TemporaryFolder folder;
  const auto messages = [&](const std::string& spec) {
    folder.Write("r.yaml", "rules: [{match: a, spec: " + spec + "}]\n");
    Findings findings;
    const auto rules =
        OpenRules({folder / "r.yaml"}, "", nullptr, "", findings);
    REQUIRE(rules);
    CheckNames(*rules, findings);
    return Messages(findings);
  };
  for (const char* good : {"ColumnWise", "AttnQSharding",
                           "[anything, [BATCH, other]]", "[__HEAD__, null]"}) {
    CAPTURE(good);
    CHECK(messages(good).empty());
  }
  CHECK(messages("AttnQShardin") ==
        std::vector<std::string>{"there is no bundle `AttnQShardin`"});
  CHECK(messages("[__HAED__]").size() == 1);
  // A file's own bundle may have axes of the mesh that no rule has.
  const auto own = [&](const std::string& axes) {
    return messages("Own}]\nbundles: {Own: " + axes + "}\n# ");
  };
  CHECK(own("[model, null]").empty());
  CHECK(own("[__HAED__]").size() == 1);
}

}  // namespace
}  // namespace shardc
