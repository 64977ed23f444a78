// A target's mesh, manifest and rules, read; and all of it, compiled.
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
#include "parse/rules.h"
#include "plan/compile.h"
#include "source/file_texts.h"
#include "source/finding.h"
#include "target/manifest_cache.h"

namespace shardc {

// What lasts between readings of the same files; either may be null.
struct Held {
  const FileTexts* texts = nullptr;  // stand in for what files hold
  ManifestCache* manifests = nullptr;
};

// How a target is read, and what is said over its files.
struct OpenOptions {
  std::optional<int64_t> devices;    // where an axis of the mesh is -1
  std::optional<int64_t> processes;  // over the mesh's own
  std::optional<Mesh> mesh;          // in place of the target's
  ManifestOptions manifest;
  Policy policy;            // wins over files' and rules' own
  std::vector<Mode> modes;  // empty: the target's, else all
  int threads = 0;          // 0: one per core
  Held held;
};

// Whether a mesh is named at all.
bool IsNamed(const MeshInput& input);

// What findings about the mesh name: its file, the place in the project file,
// or the flag.
SourceRef MeshSource(const MeshInput& mesh);

// That no such input is named is a finding too.
std::optional<Mesh> OpenMesh(const MeshInput& input,
                             std::optional<int64_t> devices, Findings& findings,
                             const FileTexts* texts = nullptr);
// Sets the number of processes; a finding where they cannot share the devices.
bool SetProcesses(Mesh& mesh, int64_t processes, Findings& findings);
std::optional<Manifest> OpenManifest(const std::string& path,
                                     const ManifestOptions& options,
                                     Findings& findings,
                                     ManifestCache* cache = nullptr);
// Files, packs and `auto`, earlier ones winning. Their rules are named
// relative to `project_dir`, or where that is empty to the first file's
// folder. `manifest` may be null: packs then take flax names; so may `texts`,
// which stand in for what files hold.
std::optional<RuleSet> OpenRules(const std::vector<std::string>& files,
                                 const std::string& project_dir,
                                 const Manifest* manifest,
                                 const std::string& model_type,
                                 Findings& findings,
                                 const FileTexts* texts = nullptr);

// Bad patterns, which another room judges though they are part of a file.
void CheckPatterns(const RuleSet& rules, Findings& findings);

// Whether a mesh, rules and a manifest are named; what is not is told in one
// finding.
bool IsComplete(const Target& target, const OpenOptions& options,
                Findings& findings);

// Everything of a target, read. All files are read before anything is
// refused, so that every error is told at once, save for what would follow
// from a manifest that cannot be read.
struct Opened {
  Mesh mesh;
  RuleSet rules;
  Manifest manifest;
  std::optional<ModelConfig> model;
  CompileOptions options;
};
std::optional<Opened> OpenTarget(const Target& target,
                                 const OpenOptions& options,
                                 Findings& findings);
std::unique_ptr<const Compiled> CompileTarget(Opened opened,
                                              Findings& findings);

}  // namespace shardc

#endif  // SHARDC_TARGET_OPEN_H_
