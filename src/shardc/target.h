// Targets of a project file (shardc-project(5)). They are found and read as by
// the command-line tool, including packs and `auto`.
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

// Which target to open. Members that are given override the target's. If
// `project` is not given, a project file is searched for in the working
// directory and its parents, but only if `target` or no input is given.
struct TargetRequest {
  std::string project = {};             // path of the project file
  std::string target = {};              // may be empty if there is only one
  std::string mesh = {};                // a file, or axes: `dp:2,tp:4`
  std::vector<std::string> rules = {};  // files, `builtin:PACK`, `auto`
  std::string manifest = {};
  std::string model = {};  // path of the model's config.json
  std::optional<int64_t> devices = std::nullopt;  // needed if an axis is -1
  // Whether the project file may name files outside its repository.
  bool allow_outside = false;
};

// The opened target: the arguments for Compile(mesh, rules, manifest, plan) and
// Check(..., check).
struct Target {
  std::string name;  // empty outside a project
  Mesh mesh;
  Rules rules;
  Manifest manifest;
  PlanOptions plan;       // with the target's modes
  CheckOptions check;     // the target's sizes, the project's lint settings
  std::string plan_file;  // the committed plan; may be empty
};

// Returns the names of the targets in the order of the project file.
std::optional<std::vector<std::string>> TargetNames(const std::string& project,
                                                    Findings& findings);

// Opens a target. Errors include an unknown target, and an input that is
// missing or cannot be read. After such an input the others are still read, so
// that their errors are reported too.
std::optional<Target> OpenTarget(const TargetRequest& request,
                                 Findings& findings);

// Returns the names of the packs that `rules` may have besides files, such as
// `builtin:llama/hf`.
std::vector<std::string> PackNames();

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_TARGET_H_
