// Directory: target. Finds and reads the inputs that a user names, and compiles
// them: a project's target, rules and packs, a mesh, a manifest, and a model's
// config.
// Its files include headers of these directories: source, model, parse,
// importers, match, program, families, resolve, roles, plan.
//
// This header finds the project file and chooses among its targets.
#ifndef SHARDC_TARGET_CHOOSE_H_
#define SHARDC_TARGET_CHOOSE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/project.h"
#include "model/rules.h"
#include "resolve/resolve.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/repository.h"

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

}  // namespace shardc

#endif  // SHARDC_TARGET_CHOOSE_H_
