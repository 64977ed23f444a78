#include "target/choose.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "source/file.h"
#include "temporary_folder.h"

namespace shardc {
namespace {

constexpr std::string_view kOne = R"(version: 1
targets:
  serve:
    mesh: dp:2,tp:4
    rules: [rules.yaml]
    manifest: m.json
)";
constexpr std::string_view kTwo = R"(version: 1
targets:
  serve: {mesh: 'tp:4', rules: [a.yaml], manifest: m.json}
  train: {mesh: 'dp:4', rules: [b.yaml], manifest: m.json}
)";

TargetRequest In(const TemporaryFolder& folder) {
  TargetRequest request;
  request.project = folder / "shardc.yaml";
  return request;
}

TEST_CASE("a project's only target needs no name") {
  const TemporaryFolder folder;
  folder.Write("shardc.yaml", kOne);
  Findings findings;
  const auto target = ChooseTarget(In(folder), findings);
  REQUIRE(target);
  CHECK(findings.empty());
  CHECK(target->name == "serve");
  CHECK(target->mesh.text == "dp:2,tp:4");
  CHECK(target->rules == std::vector<std::string>{folder / "rules.yaml"});
  CHECK(target->project_dir == folder.path().string());
}

TEST_CASE("no input that a project names may be overwritten") {
  const TemporaryFolder folder;
  folder.Write("shardc.yaml", R"(version: 1
targets:
  one: {mesh: mesh.yaml, rules: [rules.yaml], manifest: m.json, model: c.json,
        settings: s.yaml, plan: p.json}
)");
  for (const char* name :
       {"mesh.yaml", "rules.yaml", "m.json", "c.json", "s.yaml", "p.json"}) {
    folder.Write(name, "version: 1\n");
  }
  Findings findings;
  REQUIRE(ChooseTarget(In(folder), findings));
  for (const char* name :
       {"mesh.yaml", "rules.yaml", "m.json", "c.json", "s.yaml"}) {
    CAPTURE(name);
    CHECK(findings.WasRead(FileIdOf(folder / name)));
  }
  CHECK_FALSE(findings.WasRead(FileIdOf(folder / "p.json")));
}

TEST_CASE("the request's inputs win over the target's") {
  const TemporaryFolder folder;
  folder.Write("shardc.yaml", kOne);
  TargetRequest request = In(folder);
  request.mesh = "tp:8";
  request.model = "config.json";
  Findings findings;
  const auto target = ChooseTarget(request, findings);
  REQUIRE(target);
  CHECK(target->mesh.file == "tp:8");
  CHECK(target->mesh.text.empty());
  CHECK(target->model == "config.json");
  CHECK(target->manifest == folder / "m.json");
}

TEST_CASE("one of several targets is selected by name") {
  const TemporaryFolder folder;
  folder.Write("shardc.yaml", kTwo);
  TargetRequest request = In(folder);
  request.target = "train";
  Findings findings;
  CHECK(ChooseTarget(request, findings)->mesh.text == "dp:4");
  CHECK(findings.empty());

  request.target = "other";
  CHECK_FALSE(ChooseTarget(request, findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].message == "the project has no target `other`");
  CHECK(findings.all()[0].help == "choose with `--target`: `serve`, `train`");

  request.target = "";
  CHECK_FALSE(ChooseTarget(request, findings));
  REQUIRE(findings.errors() == 2);
  CHECK(findings.all()[1].message ==
        "the project has 2 targets and none is chosen");
}

TEST_CASE("a project without targets is reported with what it lacks") {
  const TemporaryFolder folder;
  folder.Write("shardc.yaml", "version: 1\ntargets: {}\n");
  Findings findings;
  CHECK_FALSE(ChooseTarget(In(folder), findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].help ==
        "write a target under `targets` of the project file");
}

TEST_CASE("a request that names all inputs needs no project") {
  TargetRequest request;
  request.mesh = "tp:2";
  Findings findings;
  const auto target = ChooseTarget(request, findings);
  REQUIRE(target);
  CHECK(findings.empty());
  CHECK(target->name.empty());
  CHECK(target->project_dir.empty());
  CHECK(target->mesh.file == "tp:2");
}

// Changes the working directory, and restores it in the destructor.
class WorkingFolder {
 public:
  explicit WorkingFolder(const std::filesystem::path& path)
      : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(path);
  }
  ~WorkingFolder() { std::filesystem::current_path(before_); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  std::filesystem::path before_;
};

TEST_CASE("a project is found here and above") {
  const TemporaryFolder folder;
  folder.Write("shardc.yaml", kOne);
  folder.Write("below/x", "");
  for (const std::string here : {"", "below"}) {
    CAPTURE(here);
    const WorkingFolder working(folder.path() / here);
    Findings findings;
    const auto target = ChooseTarget({}, findings);
    REQUIRE(target);
    CHECK(findings.empty());
    CHECK(target->name == "serve");
    CHECK(target->rules.at(0) ==
          (here.empty() ? "rules.yaml" : "../rules.yaml"));
    TargetRequest none;
    none.no_project = true;
    CHECK(ChooseTarget(none, findings)->name.empty());
  }
}

TEST_CASE("several targets, by names or all of a project") {
  const TemporaryFolder folder;
  folder.Write("shardc.yaml", kTwo);
  const auto chosen = [&](const std::vector<std::string>& names,
                          const TargetRequest& request, Findings& findings) {
    std::vector<std::string> out;
    const auto targets = ChooseTargets(request, names, findings);
    if (!targets) return std::vector<std::string>{"none"};
    for (const Target& one : *targets) out.push_back(one.name);
    return out;
  };
  using Names = std::vector<std::string>;
  Findings findings;
  CHECK(chosen({}, In(folder), findings) == Names{"serve", "train"});
  CHECK(chosen({"train", "serve"}, In(folder), findings) ==
        Names{"train", "serve"});
  CHECK(chosen({"train"}, In(folder), findings) == Names{"train"});
  CHECK(findings.empty());
  CHECK(chosen({"train", "x"}, In(folder), findings) == Names{"none"});
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].message == "the project has no target `x`");
  CHECK(findings.all()[0].help == "choose with `--target`: `serve`, `train`");
  TargetRequest request = In(folder);
  request.mesh = "tp:2";
  CHECK(chosen({"serve"}, request, findings) == Names{"serve"});
}

TEST_CASE("a target without a project is reported") {
  TargetRequest request;
  request.no_project = true;
  request.target = "serve";
  Findings findings;
  CHECK_FALSE(ChooseTarget(request, findings));
  REQUIRE(findings.errors() == 1);
  CHECK(findings.all()[0].message ==
        "there is no project file to take the target from");
  CHECK(findings.all()[0].place.source->name() == "--target");
}

TEST_CASE("an unreadable project is reported once") {
  const TemporaryFolder folder;
  folder.Write("shardc.yaml", "version: 9\n");
  Findings findings;
  CHECK_FALSE(ChooseTarget(In(folder), findings));
  CHECK(findings.errors() == 1);
  CHECK_FALSE(OpenProject(In(folder), findings));
  CHECK(findings.errors() == 2);
}

}  // namespace
}  // namespace shardc
