// Directory: target. Finds and reads the inputs that a user names, and compiles
// them: a project's target, rules and packs, a mesh, a manifest, and a model's
// config.
// Its files include headers of these directories: source, model, parse,
// importers, match, program, families, resolve, roles, facts, systems, plan.
//
// This header finds the project file and chooses among its targets.
#ifndef SHARDC_TARGET_CHOOSE_H_
#define SHARDC_TARGET_CHOOSE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/manifest.h"
#include "model/project.h"
#include "model/rules.h"
#include "resolve/resolve.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/repository.h"
#include "source/source.h"

namespace shardc {

// The inputs that a command line names. A member is empty if the command line
// does not name this input.
struct TargetRequest {
  std::string project;      // path; if empty, the nearest project file is used
  bool no_project = false;  // if true, no project file is read
  // Whether paths in the project file may lead out of its repository. Paths in
  // the request itself may always lead out of it.
  bool allow_outside = false;
  std::string target;              // name of the target
  std::string mesh;                // a file, or axes such as `dp:2,tp:4`
  std::vector<std::string> rules;  // files, `builtin:PACK` or `auto`
  std::string manifest;
  std::string model;
  std::string families;       // a folder with descriptions of model families
  std::string weights_dtype;  // the dtype of the weights of `model`

  bool NamesAnInput() const {
    return !mesh.empty() || !rules.empty() || !manifest.empty();
  }
};

// Returns the project that the request names. Without a name, returns the
// project of the nearest shardc.yaml, in the working directory or a folder
// above it. Returns nullopt if there is no such file, if `no_project` is set,
// or after an error.
std::optional<Project> OpenProject(const TargetRequest& request,
                                   Findings& findings);

// Returns the target to work on. Inputs that the request does not name are read
// from a target of the project: the named target, or the only one. The project
// is read only if the request names it or a target, or if the request names
// neither mesh, rules nor manifest. If the project is not read or does not
// exist, these inputs stay empty. Returns nullopt after an error.
std::optional<Target> ChooseTarget(const TargetRequest& request,
                                   Findings& findings);

// Returns the folder with the user's descriptions of model families: that of
// the request, or else that of the project. Like ChooseTarget(), reads no
// project if the request names other inputs. It is for commands that build a
// parameter tree without a target. Returns nullopt after an error.
std::optional<std::string> ChooseFamilies(const TargetRequest& request,
                                          Findings& findings);

// Returns the boundary of a chosen target: the folder inside which its rules
// files, and the files that they extend, must be. It is empty if the request
// names the rules, if there is no project, or if `allow_outside` is set.
Boundary RulesBoundary(const Target& target, const TargetRequest& request);

// Returns the targets with these names. Inputs that the request names replace
// those of the targets. If `names` is empty and the request names no input,
// returns all targets of the project, if it has any. Otherwise returns the one
// target that ChooseTarget() returns. Returns nullopt after an error.
std::optional<std::vector<Target>> ChooseTargets(
    const TargetRequest& request, std::span<const std::string> names,
    Findings& findings);

// Returns the target of the request:
// - If the request names a mesh or rules, but neither a target nor a project,
//   the target has only the mesh, rules and model of the request.
// - Otherwise it is the target that ChooseTarget() returns. If ChooseTarget()
//   fails, for example because there are several targets, there are two cases.
//   If the request names a target or a project, adds a finding and returns
//   nullopt. If it names neither, returns an empty target.
std::optional<Target> ChooseForResolver(const TargetRequest& request,
                                        Findings& findings);

// The resolver of a target's rules and mesh, each of which may be absent. A
// resolver removes the axes that its mesh lacks from a spec. If there is no
// mesh, it therefore gets a mesh of all axes that axis rules and registrations
// name, each of size 1.
struct OpenedResolver {
  Resolver resolver;
  // Whether the target has a mesh.
  bool has_mesh = false;
  Policy policy;  // the policy of the rules files
};
// Makes the resolver of a target. If `texts` is not null, it replaces the
// contents of files. Rules files must be inside `boundary`. Returns nullopt
// after a finding.
std::optional<OpenedResolver> OpenResolver(const Target& target,
                                           std::optional<int64_t> devices,
                                           Findings& findings,
                                           const FileTexts* texts = nullptr,
                                           const Boundary& boundary = {});

// Finds the rule packs that are embedded in the library, such as
// `builtin:llama` and `builtin:llama/flax`.

struct BuiltinPack {
  std::string name;    // the family, such as "llama"
  std::string naming;  // "flax" or "hf"
  std::string_view text;

  std::string FullName() const { return "builtin:" + name + "/" + naming; }
};

std::vector<BuiltinPack> BuiltinPacks();  // sorted by name, then naming
// Returns `auto` and the names of all packs, each with and without its naming,
// sorted.
std::vector<std::string> PackNames();

// Returns the pack with this name, which may begin with `builtin:`. If the name
// does not contain a naming (/flax or /hf), `separator` decides: hf for '.',
// flax otherwise. Returns null if there is no such pack.
SourceRef FindPack(std::string_view name, char separator);
// Returns the pack in the same way, but `naming` decides if the name has
// neither /flax nor /hf. If `naming` is empty, returns the first pack of the
// family.
SourceRef FindPack(std::string_view name, std::string_view naming);
// Returns the naming of a manifest's names. It is "flax" if the last part of
// some name is `kernel`. Otherwise it is "hf" if the last part of some name is
// `weight`. Otherwise it is "hf" if the separator is '.', and "flax" if not.
std::string_view NamingOf(const Manifest& manifest);

// Returns the full name of the pack that `auto` selects for a manifest. The
// parameter names in the manifest, the model's name in the manifest, and the
// configuration's model type decide; `model_type` may be empty. Returns nullopt
// if no family fits, or if the family has no pack for the naming (flax or hf)
// of the parameter names.
std::optional<std::string> PickPack(const Manifest& manifest,
                                    std::string_view model_type);

// Inserts null into the specs of rules that come from packs, at the dimensions
// that count scanned layers (roles/layer_stacks.h). The dimensions are those of
// the parameters that a rule is the first to match. Stacks that are only
// suspected (undecided) are ignored. A rule is not changed if its spec would
// become longer than the rank of a parameter. If its parameters have different
// dimensions of layers, the rule becomes several rules, unless its pattern has
// `^`.
void FitPacksToStacks(RuleSet& rules, const Manifest& manifest);

// Returns the packs of the folder rules/, sorted by file name. The table is
// generated by the build.
std::span<const EmbeddedFile> EmbeddedPacks();

}  // namespace shardc

#endif  // SHARDC_TARGET_CHOOSE_H_
