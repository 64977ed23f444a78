// The flags of inputs that most commands share, laid over what room target
// finds and reads.
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
#include "plan/compile.h"
#include "target/choose.h"
#include "target/open.h"
#include "target/resolver.h"

namespace shardc::cli {

// The flags as given; empty where not given.
struct InputFlags {
  TargetRequest asked;
  Strings targets;  // of commands that take several
  std::string devices, processes, stdin_filename;
  bool header_only = false;
  Strings modes;
  std::string unmatched, illegal, min_size, compat;
  Held held;  // of a command that reads targets again and again
};

Options MeshInputs(InputFlags& flags);
// --device, one device of the mesh, and its number as given.
Option DeviceInput(std::string& number);
std::optional<int64_t> ParseDevice(const std::string& number, const Mesh& mesh,
                                   Findings& findings);
Options RulesInputs(InputFlags& flags);
Options ManifestInputs(InputFlags& flags);
Options ProjectInputs(InputFlags& flags);
// --illegal alone, which AllInputs has too.
Option IllegalInput(InputFlags& flags);
// All of the above, --model, --modes and the policies.
Options AllInputs(InputFlags& flags);

// `--target` of a command that takes several: they go to `flags.targets`.
void TakeSeveralTargets(Options& options, InputFlags& flags);

// OpenMesh and OpenManifest as the flags say.
std::optional<Mesh> LoadMesh(const InputFlags& flags, const Target& target,
                             Findings& findings);
// That of `--mesh`, else of the target: no other input is asked for.
std::optional<Mesh> LoadMeshAlone(const InputFlags& flags, Findings& findings);
std::optional<Manifest> LoadManifest(const InputFlags& flags,
                                     const std::string& path,
                                     Findings& findings);
// A resolver for commands that work with or without a mesh.
std::optional<OpenedResolver> LoadResolver(const InputFlags& flags,
                                           Findings& findings);

// OpenTarget as the flags say, whose own errors are told beside the files'.
std::optional<Opened> LoadTarget(const InputFlags& flags, const Target& target,
                                 const Common& common, Findings& findings);

// The target that the flags choose; with a plan's file in place of the inputs,
// what goes beside it: `--model`.
std::optional<Target> TargetOrPlan(const InputFlags& flags,
                                   const std::string& plan, Findings& findings);

// LoadTarget, then CompileTarget; `model` receives the config if there is one.
std::unique_ptr<const Compiled> LoadAndCompile(
    const InputFlags& flags, const Target& target, const Common& common,
    Findings& findings, std::optional<ModelConfig>* model = nullptr);

Strings ModeNames();
// `--mode MODE` of commands that are about one, by default train.
Option ModeOption(std::string* to);
// "train,decode" to modes; empty: nothing given.
std::optional<std::vector<Mode>> ParseModes(const Strings& given,
                                            Findings& findings);
std::optional<Mode> ParseModeFlag(const std::string& text, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_INPUTS_H_
