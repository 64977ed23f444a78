// The inputs that most commands share: a mesh, rules, a manifest, a model's
// config, from flags or from a target of the project file.
#ifndef SHARDC_CLI_INPUTS_H_
#define SHARDC_CLI_INPUTS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"
#include "plan/compile.h"

namespace shardc::cli {

// The flags as given; empty where not given.
struct InputFlags {
  std::string mesh, devices;
  std::vector<std::string> rules;
  std::string manifest, stdin_filename;
  bool header_only = false;
  std::string model;
  std::string modes;
  std::string target, project;
  bool no_project = false;
  std::string unmatched, illegal, min_size, compat;
};

Options MeshInputs(InputFlags& flags);
Options RulesInputs(InputFlags& flags);
Options ManifestInputs(InputFlags& flags);
Options ProjectInputs(InputFlags& flags);
// All of the above, --model, --modes and the policies.
Options AllInputs(InputFlags& flags);

// The project that the flags name or that stands above this directory;
// nothing when there is none or the flags forbid it.
std::optional<Project> LoadProject(const InputFlags& flags, Findings& findings);

// The target to work on: the flags laid over --target, or over the project's
// only target when no flag names an input.
std::optional<Target> ChooseTarget(const InputFlags& flags, Findings& findings);

std::optional<Mesh> LoadMesh(const InputFlags& flags, const Target& target,
                             Findings& findings);
std::optional<Manifest> LoadManifest(const InputFlags& flags,
                                     const std::string& path,
                                     Findings& findings);
// `manifest` may be null: packs then take flax names.
std::optional<RuleSet> LoadRules(const std::vector<std::string>& files,
                                 const std::string& project_dir,
                                 const Manifest* manifest,
                                 const std::string& model_type,
                                 Findings& findings);

// Bad patterns, which another room judges though they are part of a file.
void CheckPatterns(const RuleSet& rules, Findings& findings);

// Everything of a target, read. All files are read before anything is
// refused, so that every error is told at once.
struct Loaded {
  Target target;
  Mesh mesh;
  RuleSet rules;
  Manifest manifest;
  std::optional<ModelConfig> model;
  CompileOptions options;
};
std::optional<Loaded> LoadTarget(const InputFlags& flags, const Target& target,
                                 const Common& common, Findings& findings);

// LoadTarget, then Compile; `model` receives the config if there is one.
std::unique_ptr<const Compiled> LoadAndCompile(
    const InputFlags& flags, const Target& target, const Common& common,
    Findings& findings, std::optional<ModelConfig>* model = nullptr);

Strings ModeNames();
// "train,decode" to modes; empty: nothing given.
std::optional<std::vector<Mode>> ParseModes(const std::string& text,
                                            Findings& findings);
std::optional<Mode> ParseModeFlag(const std::string& text, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_INPUTS_H_
