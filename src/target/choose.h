// Room: target. Finds and reads what a user names (a project's target, rules
// and packs, a mesh, a manifest, a model's config) and compiles it.
// Includes: source, model, parse, families, importers, match, resolve, roles,
// plan.
//
// This file finds the project file and chooses among its targets.
#ifndef SHARDC_TARGET_CHOOSE_H_
#define SHARDC_TARGET_CHOOSE_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/project.h"
#include "source/boundary.h"
#include "source/finding.h"

namespace shardc {

// The inputs of a command line. An input that is empty is taken from the
// project's target.
struct TargetRequest {
  std::string project;      // path; empty: the nearest file above
  bool no_project = false;  // read no project file
  // Whether the project's paths may lead out of its repository. Paths in the
  // request itself always may.
  bool allow_outside = false;
  std::string target;              // name of the target
  std::string mesh;                // a file, or axes such as `dp:2,tp:4`
  std::vector<std::string> rules;  // files, `builtin:PACK` or `auto`
  std::string manifest;
  std::string model;

  bool NamesAnInput() const {
    return !mesh.empty() || !rules.empty() || !manifest.empty();
  }
};

// Returns the named project, or the nearest one above the working directory.
// Returns nullopt if there is none, if `no_project` is set, or after a finding.
std::optional<Project> OpenProject(const TargetRequest& request,
                                   Findings& findings);

// Returns the target to work on. It has the inputs that the request names. The
// others come from the target that the request names or, if the request names a
// project, or neither mesh, rules nor manifest, from the project's only target.
// Without a project file they are empty. Returns nullopt after a finding.
std::optional<Target> ChooseTarget(const TargetRequest& request,
                                   Findings& findings);

// Returns the boundary inside which the rules files of a chosen target, and the
// files that they extend, must be. Rules that the request names have no
// boundary.
Boundary RulesBoundary(const Target& target, const TargetRequest& request);

// Returns the targets of these names. Without names, returns all targets of the
// project or, if the request names inputs, one target with these inputs.
// Returns nullopt after a finding.
std::optional<std::vector<Target>> ChooseTargets(
    const TargetRequest& request, std::span<const std::string> names,
    Findings& findings);

}  // namespace shardc

#endif  // SHARDC_TARGET_CHOOSE_H_
