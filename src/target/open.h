// Reads a target's mesh, manifest and rules, and compiles all of it.
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

// Texts and manifests that outlive one reading; either may be null.
struct Held {
  const FileTexts* texts = nullptr;  // replace the contents of files
  ManifestCache* manifests = nullptr;
};

// Options of reading a target, which win over its files.
struct OpenOptions {
  std::optional<int64_t> devices;    // for an axis of size -1
  std::optional<int64_t> processes;  // default: the mesh's own
  std::optional<Mesh> mesh;          // replaces the target's
  ManifestOptions manifest;
  Boundary rules_boundary;  // RulesBoundary (target/choose.h)
  Policy policy;            // wins over files' and rules' own
  std::vector<Mode> modes;  // empty: the target's, or all modes
  int threads = 0;          // 0: one per core
  Held held;
};

// Whether the input names a mesh.
bool IsNamed(const MeshInput& input);

// The source that findings about the mesh point to: its file, its place in the
// project file, or the flag.
SourceRef MeshSource(const MeshInput& mesh);

// Reads the mesh. A mesh that is not named is a finding.
std::optional<Mesh> OpenMesh(const MeshInput& input,
                             std::optional<int64_t> devices, Findings& findings,
                             const FileTexts* texts = nullptr);
// Sets the number of processes; a finding if it does not divide the devices.
bool SetProcesses(Mesh& mesh, int64_t processes, Findings& findings);
std::optional<Manifest> OpenManifest(const std::string& path,
                                     const ManifestOptions& options,
                                     Findings& findings,
                                     ManifestCache* cache = nullptr);
// Reads files, packs and `auto`; earlier files win. The rules' files are named
// relative to `project_dir`, or if that is empty to the folder of the first
// file. Rules files and what they extend must be inside `boundary`. `manifest`
// may be null: packs then take flax names. `texts` may be null; they replace
// the contents of files.
std::optional<RuleSet> OpenRules(
    const std::vector<std::string>& files, const std::string& project_dir,
    const Manifest* manifest, const std::string& model_type, Findings& findings,
    const FileTexts* texts = nullptr, const Boundary& boundary = {});

// Reports bad patterns, which the reader of rules files does not compile.
void CheckPatterns(const RuleSet& rules, Findings& findings);

// Reports names in specs that no mesh can give a meaning: bundles that do not
// exist, and long names such as `__X__` that are neither built in nor
// registered. Any other name may be an axis of the mesh.
void CheckNames(const RuleSet& rules, Findings& findings);

// Whether a mesh, rules and a manifest are named; one finding lists those
// missing.
bool IsComplete(const Target& target, const OpenOptions& options,
                Findings& findings);

// A target's inputs, read. All files are read before the result is refused, so
// that all errors are reported at once; only errors that would follow from an
// unreadable manifest are not.
struct Opened {
  Mesh mesh;
  RuleSet rules;
  Manifest manifest;
  std::optional<ModelConfig> model;
  // Of a pipeline: the target's own, completed by those of the rules.
  std::optional<StageDeclaration> stages;
  CompileOptions options;
};
std::optional<Opened> OpenTarget(const Target& target,
                                 const OpenOptions& options,
                                 Findings& findings);
// Compiles the target and divides it by its stages (plan/divide.h).
std::unique_ptr<const Compiled> CompileTarget(Opened opened,
                                              Findings& findings);

}  // namespace shardc

#endif  // SHARDC_TARGET_OPEN_H_
