// Chooses the inputs of a command: a mesh, rules, a manifest and a model. An
// input is named by the command line (the request), or by a target of the
// project file. The command line takes precedence. The target is the one that
// the command line names, or the only target of the project.
//
// The project file is read only in two cases: if the command line names a
// project or a target, or if it names neither mesh, rules nor manifest. For
// example, the project's only target has `rules: [a.yaml]`, and the command
// line has a mesh and a manifest. The project file is not read, so there are no
// rules. If the command line also names the target, the rules are a.yaml.
#include "target/choose.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "model/axis_rules.h"
#include "parse/project.h"
#include "plan/mesh_purposes.h"
#include "source/file.h"
#include "source/wording.h"
#include "target/open.h"

namespace shardc {
namespace {

void ApplyRequest(const TargetRequest& request, Target& target) {
  if (!request.mesh.empty()) target.mesh = MeshInput{request.mesh, {}, {}, {}};
  if (!request.rules.empty()) target.rules = request.rules;
  if (!request.manifest.empty()) target.manifest = request.manifest;
  if (!request.model.empty()) target.model = request.model;
  if (!request.families.empty()) target.families = request.families;
}

std::string TargetNames(const Project& project) {
  std::string names;
  for (const Target& target : project.targets) {
    names += (names.empty() ? "`" : ", `") + target.name + "`";
  }
  return names;
}

// Returns the target with this name, or the only target if the name is empty.
// If there is no such target, adds a finding and returns null.
const Target* FindTarget(const Project& project, const std::string& name,
                         Findings& findings) {
  for (const Target& known : project.targets) {
    if (known.name == name || (name.empty() && project.targets.size() == 1)) {
      return &known;
    }
  }
  findings.Add(code::kUsage, {},
               name.empty()
                   ? "the project has " +
                         Counted(static_cast<int64_t>(project.targets.size()),
                                 "target") +
                         " and none is chosen"
                   : "the project has no target `" + name + "`",
               project.targets.empty()
                   ? "write a target under `targets` of the project file"
                   : "choose with `--target`: " + TargetNames(project));
  return nullptr;
}

// Records the rules, meshes, manifests, models and verification settings of all
// targets as read files, so that no output overwrites them. Baselines are not
// recorded, because `check --write-baseline` has to replace them.
void NoteInputs(const Project& project, Findings& findings) {
  for (const Target& target : project.targets) {
    for (const std::string& rules : target.rules) {
      findings.NoteRead(FileIdOf(rules));
    }
    for (const std::string* input : {&target.mesh.file, &target.manifest,
                                     &target.model, &target.verify.settings}) {
      if (!input->empty()) findings.NoteRead(FileIdOf(*input));
    }
  }
}

// Returns false after a finding if two inputs of the request are `-`, because
// standard input can be read as only one of them.
bool ReadsStandardInputOnce(const TargetRequest& request, Findings& findings) {
  std::vector<std::string> flags;
  const auto count = [&](std::string_view flag, const std::string& value) {
    if (value == "-") flags.push_back(Quote(flag));
  };
  count("--mesh", request.mesh);
  for (const std::string& rules : request.rules) count("--rules", rules);
  count("--manifest", request.manifest);
  count("--model", request.model);
  if (flags.size() < 2) return true;
  findings.Add(code::kUsage, {},
               flags[0] + " and " + flags[1] +
                   " are both `-`, and standard input has the text of one file",
               "give the path of a file for one of them");
  return false;
}

std::optional<Project> Read(const std::string& path, bool allow_outside,
                            Findings& findings) {
  auto project = ReadProject(path, findings, nullptr, allow_outside);
  if (project) NoteInputs(*project, findings);
  return project;
}

}  // namespace

std::optional<Project> OpenProject(const TargetRequest& request,
                                   Findings& findings) {
  if (request.no_project) return std::nullopt;
  if (!request.project.empty())
    return Read(request.project, request.allow_outside, findings);
  std::error_code error;
  const auto here = std::filesystem::current_path(error);
  const auto path = FindProject(error ? "." : here.string());
  if (!path) return std::nullopt;
  // The path is relative to the working directory, so that messages do not
  // depend on the folders of this machine. Links are not followed: a project
  // file that is a link keeps its place in the repository.
  const std::string shown =
      std::filesystem::path(*path).lexically_proximate(here).string();
  return Read(shown, request.allow_outside, findings);
}

std::optional<Target> ChooseTarget(const TargetRequest& request,
                                   Findings& findings) {
  if (!ReadsStandardInputOnce(request, findings)) return std::nullopt;
  Target target;
  const bool asked = !request.target.empty() || !request.project.empty();
  if (asked || !request.NamesAnInput()) {
    const size_t before = findings.errors();
    const auto project = OpenProject(request, findings);
    if (findings.errors() > before) return std::nullopt;
    if (!project && !request.target.empty()) {
      findings.Add(
          code::kUsage,
          {MakeSource("--target", request.target), 0, request.target.size()},
          "there is no project file to take the target from",
          "run where a `shardc.yaml` stands here or above, or name "
          "it with `--project`");
      return std::nullopt;
    }
    if (project) {
      const Target* const chosen =
          FindTarget(*project, request.target, findings);
      if (chosen == nullptr) return std::nullopt;
      target = *chosen;
    }
  }
  ApplyRequest(request, target);
  return target;
}

std::optional<std::string> ChooseFamilies(const TargetRequest& request,
                                          Findings& findings) {
  const bool asked = !request.target.empty() || !request.project.empty();
  if (!request.families.empty() || (request.NamesAnInput() && !asked)) {
    return request.families;
  }
  const size_t before = findings.errors();
  const auto project = OpenProject(request, findings);
  if (findings.errors() > before) return std::nullopt;
  return project ? project->families : "";
}

Boundary RulesBoundary(const Target& target, const TargetRequest& request) {
  const bool of_project = !target.project_dir.empty() && request.rules.empty();
  if (!of_project || request.allow_outside) return {};
  return Boundary::Of(
      (std::filesystem::path(target.project_dir) / "shardc.yaml").string());
}

std::optional<std::vector<Target>> ChooseTargets(
    const TargetRequest& request, std::span<const std::string> names,
    Findings& findings) {
  const size_t before = findings.errors();
  std::vector<Target> out;
  if (names.empty() && !request.NamesAnInput()) {
    const auto project = OpenProject(request, findings);
    if (findings.errors() > before) return std::nullopt;
    if (project && !project->targets.empty()) return project->targets;
  }
  TargetRequest one = request;
  for (size_t i = 0; i < std::max<size_t>(names.size(), 1); ++i) {
    if (!names.empty()) one.target = names[i];
    auto target = ChooseTarget(one, findings);
    if (!target) return std::nullopt;
    out.push_back(std::move(*target));
  }
  return out;
}

// Makes a resolver of specs for commands that need neither a mesh nor a
// manifest. A resolver replaces the logical axes of a spec, such as BATCH, by
// mesh axes. It keeps only axes that the mesh has. If there is no mesh, it
// therefore gets a mesh with all axes that axis rules and registrations name,
// each of size 1. For example, without axis rules of the user, BATCH stands for
// fsdp and dp:
//
//   no mesh, [BATCH, [FSDP, SP], _]  ->  [["fsdp", "dp"], ["fsdp", "sp"], null]

namespace {

void AddAxis(Mesh& mesh, const std::string& name) {
  if (!mesh.Find(name)) mesh.axes.push_back({name, 1, AxisType::kAuto});
}

Mesh MeshOf(const RuleSet& rules) {
  Mesh mesh;
  for (size_t i = 0; i < kAxisRuleCount; ++i) {
    const AxisValue value = rules.axes.Value(static_cast<AxisRule>(i));
    for (const std::string& axis : value.axes) AddAxis(mesh, axis);
  }
  for (const Registration& registration : rules.registrations) {
    for (const auto& name : registration.rule.names) {
      if (name.forced_axis || !rules.IsLogical(name.text)) {
        AddAxis(mesh, name.text);
      }
    }
  }
  return mesh;
}

}  // namespace

std::optional<Target> ChooseForResolver(const TargetRequest& request,
                                        Findings& findings) {
  Target target;
  const bool named = !request.target.empty() || !request.project.empty();
  const bool given = !request.mesh.empty() || !request.rules.empty();
  if (given && !named) {
    target.rules = request.rules;
    target.model = request.model;
    if (!request.mesh.empty())
      target.mesh = MeshInput{request.mesh, {}, {}, {}};
    return target;
  }
  // If the request names neither a target nor a project, it is not an error
  // that no target can be chosen.
  Findings own;
  auto chosen = ChooseTarget(request, own);
  findings.NoteReadsOf(own);
  if (chosen) return chosen;
  if (!named) return target;
  findings.Append(std::move(own));
  return std::nullopt;
}

std::optional<OpenedResolver> OpenResolver(const Target& target,
                                           std::optional<int64_t> devices,
                                           Findings& findings,
                                           const FileTexts* texts,
                                           const Boundary& boundary) {
  const size_t before = findings.errors();
  RuleSet rules;
  if (!target.rules.empty()) {
    if (auto read = OpenRulesAlone(target, findings, texts, boundary)) {
      rules = std::move(*read);
    }
  }
  std::optional<Mesh> mesh;
  if (IsNamed(target.mesh))
    mesh = OpenMesh(target.mesh, devices, findings, texts);
  if (findings.errors() > before) return std::nullopt;
  if (mesh && !target.model.empty()) {
    const auto model = ReadModelConfig(target.model, findings);
    if (!model) return std::nullopt;
    ChoosePackAxes(rules, &*model, *mesh);
  }
  auto resolver = Resolver::Make(rules, mesh ? *mesh : MeshOf(rules), findings);
  if (!resolver) return std::nullopt;
  return OpenedResolver{std::move(*resolver), mesh.has_value(), rules.policy};
}

}  // namespace shardc
