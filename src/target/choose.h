// Room: target. What a user names — a project's target, rules and packs, a
// mesh, a manifest, a model's config — found, read and put together, ready to
// compile. Knows source, model, parse, importers, match, resolve and plan.
//
// The project file and its targets.
#ifndef SHARDC_TARGET_CHOOSE_H_
#define SHARDC_TARGET_CHOOSE_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/project.h"
#include "source/finding.h"

namespace shardc {

// What is asked for. What is empty is as the project's target has it.
struct TargetRequest {
  std::string project;             // its file; empty: the nearest upwards
  bool no_project = false;         // look for none
  std::string target;              // its name
  std::string mesh;                // a file, or axes such as `dp:2,tp:4`
  std::vector<std::string> rules;  // files, `builtin:PACK` or `auto`
  std::string manifest;
  std::string model;

  bool NamesAnInput() const {
    return !mesh.empty() || !rules.empty() || !manifest.empty();
  }
};

// The project asked for, or that which stands above the working directory;
// nothing when there is none or none is wanted.
std::optional<Project> OpenProject(const TargetRequest& request,
                                   Findings& findings);

// The target to work on: the request laid over the target it names, or over
// the project's only target where it names no input.
std::optional<Target> ChooseTarget(const TargetRequest& request,
                                   Findings& findings);

// The targets of these names, as they stand; where none is given all of the
// project, or the one that the request's inputs make.
std::optional<std::vector<Target>> ChooseTargets(
    const TargetRequest& request, std::span<const std::string> names,
    Findings& findings);

}  // namespace shardc

#endif  // SHARDC_TARGET_CHOOSE_H_
