// Targets of a project file (shardc-project(5)). A target is found and read in
// the same way as by the command-line tool, including packs and `auto`.
#ifndef SHARDC_SHARDC_TARGET_H_
#define SHARDC_SHARDC_TARGET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shardc/check.h"
#include "shardc/findings.h"
#include "shardc/manifest.h"
#include "shardc/mesh.h"
#include "shardc/plan.h"
#include "shardc/rules.h"

namespace shardc::SHARDC_V1 {

// Which target to open. A member that is set overrides the same key of the
// target. If `project` is empty, a project file is searched for in the working
// directory and its parents. This search is done only if `target` is set or no
// input is set.
struct TargetRequest {
  std::string project = {};  // path of the project file
  std::string target = {};   // may be empty if there is only one target
  std::string mesh = {};     // a file, or axes such as `dp:2,tp:4`
  // Each element is a file, `builtin:PACK`, or `auto` for the pack that fits
  // the parameter names.
  std::vector<std::string> rules = {};
  std::string manifest = {};
  std::string model = {};  // path of the model's config.json
  // Number of devices; required if the size of a mesh axis is -1.
  std::optional<int64_t> devices = std::nullopt;
  // Whether the project file may name files outside its repository.
  bool allow_outside = false;
};

// An opened target. `mesh`, `rules`, `manifest` and `plan` are the arguments of
// Compile, and `check` are the options of Check.
struct Target {
  std::string name;  // empty if no project was read
  Mesh mesh;
  Rules rules;
  Manifest manifest;
  PlanOptions plan;       // options of Compile, with the target's modes
  CheckOptions check;     // options of Check, from the target and the project
  std::string plan_file;  // path of the committed plan; may be empty
};

// Returns the names of the targets in the order of the project file.
std::optional<std::vector<std::string>> TargetNames(const std::string& project,
                                                    Findings& findings);

// Opens a target. Errors include an unknown target, and an input that is
// missing or cannot be read. All inputs are read even if one of them has
// errors, so that all errors are reported.
std::optional<Target> OpenTarget(const TargetRequest& request,
                                 Findings& findings);

// Returns the names of the built-in rule packs, such as `builtin:llama/hf`.
// They are accepted wherever a rules file is.
std::vector<std::string> PackNames();

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_TARGET_H_
