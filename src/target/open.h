// Reads a target's mesh, manifest and rules, and compiles them:
//
//   Findings findings;
//   const auto target = ChooseTarget({.mesh = "dp:2,tp:4", ...}, findings);
//   auto opened = OpenTarget(*target, {}, findings);
//   const auto compiled = CompileTarget(std::move(*opened), findings);
#ifndef SHARDC_TARGET_OPEN_H_
#define SHARDC_TARGET_OPEN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "importers/manifest.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"
#include "model/stages.h"
#include "parse/rules.h"
#include "plan/compile.h"
#include "source/boundary.h"
#include "source/file_texts.h"
#include "source/finding.h"
#include "target/manifest_cache.h"

namespace shardc {

// What a caller such as the language server keeps between reads: the texts of
// open documents, and manifests. Either may be null.
struct Held {
  const FileTexts* texts = nullptr;  // replace the contents of files
  ManifestCache* manifests = nullptr;
};

// Options for reading a target. They take precedence over its files.
struct OpenOptions {
  // The number of devices. It determines the size of an axis of size -1, and
  // takes precedence over the number in a mesh file.
  std::optional<int64_t> devices;
  std::optional<int64_t> processes;  // default: as in the mesh
  std::optional<Mesh> mesh;          // replaces the target's mesh
  ManifestOptions manifest;
  Boundary rules_boundary;  // the result of RulesBoundary (target/choose.h)
  Policy policy;            // takes precedence over files and rules
  std::vector<Mode> modes;  // empty for the target's modes, or else all modes
  int threads = 0;          // 0: one per core
  Held held;
};

// Returns whether the input names a mesh.
bool IsNamed(const MeshInput& input);

// Returns the place for findings about the mesh: its file, its place in the
// project file, or the flag.
Place MeshPlace(const MeshInput& mesh);

// Reads the mesh. Returns nullopt after a finding; no named mesh is a finding.
std::optional<Mesh> OpenMesh(const MeshInput& input,
                             std::optional<int64_t> devices, Findings& findings,
                             const FileTexts* texts = nullptr);
// Sets the number of processes. Returns false after a finding if the number
// does not divide the number of devices.
bool SetProcesses(Mesh& mesh, int64_t processes, Findings& findings);
std::optional<Manifest> OpenManifest(const std::string& path,
                                     const ManifestOptions& options,
                                     Findings& findings,
                                     ManifestCache* cache = nullptr);
// Reads rules from files, packs and `auto`; earlier entries of `files` take
// precedence. Plans name a rules file by its path relative to `project_dir`. If
// `project_dir` is empty, the path is relative to the folder of the first file
// that is not a pack. Rules files and the files that they extend must be inside
// `boundary`. `manifest` may be null. Then `auto` is an error, and a pack that
// is named without /flax or /hf is the flax one. `texts`, if not null, replaces
// the contents of files. Returns nullopt after a finding.
std::optional<RuleSet> OpenRules(
    const std::vector<std::string>& files, const std::string& project_dir,
    const Manifest* manifest, const std::string& model_type, Findings& findings,
    const FileTexts* texts = nullptr, const Boundary& boundary = {});

// Opens the rules of a target for a command that otherwise needs no manifest.
// If the rules contain `auto`, the pack is chosen by the names in the target's
// manifest, or in the parameter tree that is built from its config.json.
// Returns nullopt after a finding.
std::optional<RuleSet> OpenRulesAlone(const Target& target, Findings& findings,
                                      const FileTexts* texts = nullptr,
                                      const Boundary& boundary = {});

// Reports patterns that are not valid, because the reader of rules files does
// not compile patterns.
void CheckPatterns(const RuleSet& rules, Findings& findings);

// Reports the errors in specs that do not depend on the mesh: bundles that do
// not exist, long names such as `__X__` that are neither built in nor
// registered, registrations that cannot be resolved, and axes that a spec names
// twice. Any other unknown name may be an axis of the mesh.
void CheckNames(const RuleSet& rules, Findings& findings);

// Returns whether all required inputs are named: a mesh (in the target or in
// `options`), rules, and a manifest or a model's config.json. If not, adds one
// finding that lists the missing inputs.
bool IsComplete(const Target& target, const OpenOptions& options,
                Findings& findings);

// The inputs of a target after reading.
struct Opened {
  Mesh mesh;
  RuleSet rules;
  Manifest manifest;
  std::optional<ModelConfig> model;
  // The stages of a pipeline, as DeclaredStages (parse/stages_read.h) returns
  // them.
  std::optional<StageDeclaration> stages;
  CompileOptions options;
};
// Reads the inputs of a target. After an error in one input the other inputs
// are still read, so that one run reports the errors of several inputs. Returns
// nullopt after an error, or if IsComplete() is false.
std::optional<Opened> OpenTarget(const Target& target,
                                 const OpenOptions& options,
                                 Findings& findings);
// Compiles the target. If the target declares pipeline stages, assigns the
// parameters to them (plan/divide.h). Returns null if it cannot be compiled.
std::unique_ptr<const Compiled> CompileTarget(Opened opened,
                                              Findings& findings);

}  // namespace shardc

#endif  // SHARDC_TARGET_OPEN_H_
