#include "parse/project.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parse/mesh.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

TEST_CASE("a project with everything") {
  const TemporaryFolder folder;
  folder.Write("meshes/a.yaml", "axes: {dp: 2}\n");
  folder.Write("shardc.yaml", R"(version: 1
targets:
  one:
    mesh: meshes/a.yaml
    rules: [rules/ours.yaml, builtin:llama, auto, /abs.yaml]
    manifest: m.json
    model: c/config.json
    modes: [train, __autoregressive__, train]
    operations: [ring, flash_attn2]
    batch: 64
    kv_len: 8192
    memory: 16GiB
    plan: plans/one.json
  two: {mesh: 'dp:2,tp=4', rules: auto}
  three:
    mesh:
      axes: {dp: 2, tp: 4}
lint:
  select: [SHD203, unmatched]
  ignore: SHD101
  severity: {SHD203: error, SHD104: note}
  fail_on: warning
  baseline: known/b.json
)");
  Findings findings;
  // `/abs.yaml` is outside the project's folder.
  CHECK_FALSE(ReadProject(folder / "shardc.yaml", findings));
  REQUIRE(findings.all().size() == 1);
  CHECK(findings.all()[0].code->name == code::kPath.name);
  CHECK(findings.all()[0].place.ToString() ==
        (folder / "shardc.yaml") + ":5:51");
  findings = {};
  const auto project =
      ReadProject(folder / "shardc.yaml", findings, nullptr, true);
  CHECK(findings.empty());
  REQUIRE(project);
  REQUIRE(project->targets.size() == 3);
  const Target& one = project->targets[0];
  CHECK(one.name == "one");
  CHECK(one.place.source->At(one.place.begin).line == 3);
  CHECK(one.mesh.file == folder / "meshes/a.yaml");
  CHECK(one.rules == std::vector<std::string>{folder / "rules/ours.yaml",
                                              "builtin:llama", "auto",
                                              "/abs.yaml"});
  CHECK(one.manifest == folder / "m.json");
  CHECK(one.model == folder / "c/config.json");
  CHECK(one.modes == std::vector<Mode>{Mode::kTrain, Mode::kDecode});
  REQUIRE(one.verify.operations.size() == 2);
  CHECK(one.verify.operations[0].operation == "ring");
  CHECK(one.verify.operations[1].operation == "flash_attn2");
  CHECK_FALSE(one.verify.operations[0].mode);
  CHECK(one.batch == 64);
  CHECK(one.kv_len == 8192);
  CHECK(one.memory_bytes == int64_t{16} << 30);
  CHECK(one.plan == folder / "plans/one.json");
  const Target& two = project->targets[1];
  CHECK(two.mesh.text == "dp:2,tp=4");
  CHECK(two.rules == std::vector<std::string>{"auto"});
  CHECK(two.modes.empty());
  const auto mesh = ReadMesh(project->targets[2].mesh, std::nullopt, findings);
  CHECK(findings.empty());
  REQUIRE(mesh);
  CHECK(mesh->devices == 8);
  CHECK(project->lint.select ==
        std::vector<std::string>{"SHD203", "unmatched"});
  CHECK(project->lint.ignore == std::vector<std::string>{"SHD101"});
  CHECK(project->lint.severity.at("SHD104") == Level::kNote);
  CHECK(project->lint.fail_on == "warning");
  CHECK(project->lint.baseline == folder / "known/b.json");
}

TEST_CASE("the dtype of a target's cache is one value") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& dtype, Findings& findings) {
    folder.Write("shardc.yaml",
                 "version: 1\ntargets:\n  one:\n    kv_dtype: " + dtype + "\n");
    return ReadProject(folder / "shardc.yaml", findings);
  };
  Findings findings;
  const auto project = read("int8", findings);
  REQUIRE(project);
  CHECK(findings.empty());
  CHECK(project->targets[0].verify.kv_dtype == Dtype::kI8);
  for (const auto& one :
       {std::pair("[int8]", "`kv_dtype` is a list, not a dtype"),
        std::pair("{a: int8}", "`kv_dtype` is a mapping, not a dtype"),
        std::pair("int7", "`kv_dtype` is the string `int7`")}) {
    const std::string dtype = one.first;
    CAPTURE(dtype);
    Findings refused;
    CHECK_FALSE(read(dtype, refused));
    REQUIRE(refused.errors() == 1);
    CHECK(refused.all()[0].message == one.second);
  }
}

TEST_CASE("the nearest project upwards, to the repository's root") {
  const TemporaryFolder folder;
  folder.Write("shardc.yaml", "version: 1\n");
  folder.Write("a/b/x", "");
  folder.Write("repo/.git/HEAD", "");
  folder.Write("repo/sub/x", "");
  folder.Write("other/.git", "gitdir: elsewhere\n");
  folder.Write("other/shardc.yaml", "version: 1\n");
  CHECK(FindProject(folder / "a/b") == folder / "shardc.yaml");
  CHECK(FindProject(folder / "") == folder / "shardc.yaml");
  CHECK(FindProject(folder / "repo/sub") == std::nullopt);
  CHECK(FindProject(folder / "other") == folder / "other/shardc.yaml");
}

}  // namespace
}  // namespace shardc
