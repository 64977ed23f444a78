// Reads the mesh, manifest and rules of a target, and compiles them:
//
//   Findings findings;
//   const auto target = ChooseTarget({.mesh = "dp:2,tp:4", ...}, findings);
//   auto opened = OpenTarget(*target, {}, findings);
//   const auto compiled = CompileTarget(std::move(*opened), findings);
#ifndef SHARDC_TARGET_OPEN_H_
#define SHARDC_TARGET_OPEN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "families/families.h"
#include "importers/manifest.h"
#include "model/manifest.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/rules.h"
#include "parse/rules.h"
#include "plan/compile.h"
#include "plan/plan_table.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/repository.h"

namespace shardc {

// The identity, size and times of a file. If two stamps of a file are equal,
// the file was not written between them, except for writes that keep its size
// and are too quick for the resolution of its times.
struct FileStamp {
  FileId file;
  int64_t size = -1;  // negative if the path is not a regular file
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;

  bool operator==(const FileStamp&) const = default;
};
FileStamp StampOf(const std::string& path);

// A cache of manifests by path. Several threads may use it at the same time.
class ManifestCache {
 public:
  // Returns the manifest that was kept for this path, if its stamp equals
  // `stamp`; otherwise nullopt.
  std::optional<Manifest> Find(const std::string& path,
                               const FileStamp& stamp) const;
  // Keeps the manifest of a regular file. `stamp` must have been taken before
  // the file was read. If the cache is full, all its entries are removed first.
  void Keep(const std::string& path, const FileStamp& stamp,
            const Manifest& manifest);

 private:
  struct Entry {
    FileStamp stamp;
    Manifest manifest;
  };
  static constexpr size_t kLimit = 64;  // the largest number of entries

  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

// What a caller such as the language server keeps between reads. Each member
// may be null.
struct Held {
  // Texts of open documents; they replace the contents of files.
  const FileTexts* texts = nullptr;
  // Manifests that were read before.
  ManifestCache* manifests = nullptr;
};

// Options for reading a target, which take precedence over the target's files.
struct OpenOptions {
  // The number of devices. It determines the size of an axis whose size is -1,
  // and takes precedence over the number in a mesh file.
  std::optional<int64_t> devices;
  // If set, replaces the number of processes in the mesh.
  std::optional<int64_t> processes;
  std::optional<Mesh> mesh;  // if set, replaces the target's mesh
  ManifestOptions manifest;
  Boundary rules_boundary;  // the folder that rules files must be in
  // What to do with illegal specs and unmatched parameters, for example. Takes
  // precedence over the `policy` of rules files and over single rules.
  Policy policy;
  // If empty, the target's modes are used, or all modes if it has none.
  std::vector<Mode> modes;
  // The weights of a tree that is built from a config.json.
  families::TreeWeights weights;
  int threads = 0;  // number of threads; 0 for one per core
  Held held;
};

// Returns whether the input names a mesh, by a file or by axes.
bool IsNamed(const MeshInput& input);

// Returns the place to which findings about the mesh refer: its file, its place
// in the project file, or the flag --mesh.
Place MeshPlace(const MeshInput& mesh);

// Reads the mesh. Returns nullopt after a finding, also if no mesh is named.
std::optional<Mesh> OpenMesh(const MeshInput& input,
                             std::optional<int64_t> devices, Findings& findings,
                             const FileTexts* texts = nullptr);
// Sets the number of processes of a mesh. Returns false after a finding if this
// number does not divide the number of devices.
bool SetProcesses(Mesh& mesh, int64_t processes, Findings& findings);
std::optional<Manifest> OpenManifest(const std::string& path,
                                     const ManifestOptions& options,
                                     Findings& findings,
                                     ManifestCache* cache = nullptr);
// Returns the sizes of the model that the manifest's own file states, as a GGUF
// file does in its metadata; nullopt if it states none, or if they contradict
// each other. They are used where no config.json is given.
std::optional<ModelConfig> StatedModel(const Manifest& manifest);
// Reads rules from files, packs and `auto`; an earlier element of `files` takes
// precedence. Plans name a rules file by its path relative to `project_dir`. If
// `project_dir` is empty, the path is relative to the folder of the first file
// that is not a pack. Rules files, and the files that they extend, must be
// inside `boundary`. `manifest` may be null: then `auto` is an error, and a
// pack that is named without /flax or /hf is the flax one. If `texts` is not
// null, it replaces the contents of files. Returns nullopt after a finding.
std::optional<RuleSet> OpenRules(
    const std::vector<std::string>& files, const std::string& project_dir,
    const Manifest* manifest, const std::string& model_type, Findings& findings,
    const FileTexts* texts = nullptr, const Boundary& boundary = {});

// Builds the tree of the target's config.json, before quantisation. Returns
// nullopt after a finding.
std::optional<Manifest> DescribedTree(const Target& target, Findings& findings);
// Sets Manifest::described of a manifest that was read from a file to what the
// description of the config's family states about tensors of these names. Does
// nothing without a config or a description. `families` is the folder of the
// user's descriptions, or empty.
void AddDescribed(const std::string& config_path, const std::string& families,
                  Manifest& manifest);
// Reads a config.json, and takes from Manifest::described the sizes that the
// keys of the config do not show. `manifest` may be null. Returns nullopt after
// a finding.
std::optional<ModelConfig> OpenModel(const std::string& config_path,
                                     const Manifest* manifest,
                                     Findings& findings);
// Does the same for a plan that was read from a file, and sets
// ReadPlan::described.
std::optional<ModelConfig> OpenModel(const std::string& config_path,
                                     const std::string& families,
                                     ReadPlan& plan, Findings& findings);

// Reads the rules of a target for a command that otherwise needs no manifest.
// If the rules contain `auto`, parameter names decide which pack is read. These
// names are those of the target's manifest, or of the tree that is built from
// its config.json. Returns nullopt after a finding.
std::optional<RuleSet> OpenRulesAlone(const Target& target, Findings& findings,
                                      const FileTexts* texts = nullptr,
                                      const Boundary& boundary = {});

// Reports patterns that are not valid. The reader of rules files does not
// compile patterns, so it does not find them.
void CheckPatterns(const RuleSet& rules, Findings& findings);

// Reports the errors in specs that do not depend on the mesh: bundles that do
// not exist, long names such as `__X__` that are neither built in nor
// registered, registrations that cannot be resolved, and axes that a spec names
// twice. Any other unknown name is not reported, because it may be an axis of
// the mesh.
void CheckNames(const RuleSet& rules, Findings& findings);

// Returns whether all required inputs are named: a mesh (in the target or in
// `options`), rules, and a manifest or a model's config.json. If an input is
// missing, adds one finding that lists all missing inputs.
bool IsComplete(const Target& target, const OpenOptions& options,
                Findings& findings);

// The inputs of a target after they were read.
struct Opened {
  Mesh mesh;
  RuleSet rules;
  Manifest manifest;
  std::optional<ModelConfig> model;
  // The stages of a pipeline, as DeclaredStages() in parse/rules.h
  // returns them; nullopt if there are none.
  std::optional<StageDeclaration> stages;
  CompileOptions options;
};
// Reads the inputs of a target. If one input has an error, the other inputs are
// read too, so that one run reports the errors of several inputs. Returns
// nullopt after an error, or if IsComplete() returns false.
std::optional<Opened> OpenTarget(const Target& target,
                                 const OpenOptions& options,
                                 Findings& findings);
// Compiles the target. If the target declares pipeline stages, the parameters
// are assigned to them (plan/planned_stages.h). Returns null if the target
// cannot be compiled.
std::unique_ptr<const Compiled> CompileTarget(Opened opened,
                                              Findings& findings);

}  // namespace shardc

#endif  // SHARDC_TARGET_OPEN_H_
