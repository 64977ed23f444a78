// What a user names by a project file (shardc-project(5)): its targets, found
// and read as the program does, packs and `auto` included.
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

// What is given wins over the target's own. With neither `project` nor
// `target` a project is looked for, here and upwards, only where no input is
// named at all.
struct TargetRequest {
  std::string project = {};             // its file
  std::string target = {};              // may be empty where there is but one
  std::string mesh = {};                // a file, or axes: `dp:2,tp:4`
  std::vector<std::string> rules = {};  // files, `builtin:PACK`, `auto`
  std::string manifest = {};
  std::string model = {};  // path of the model's config.json
  std::optional<int64_t> devices = std::nullopt;  // where an axis is -1
};

// Ready for Compile(mesh, rules, manifest, plan) and Check(..., check).
struct Target {
  std::string name;  // empty outside a project
  Mesh mesh;
  Rules rules;
  Manifest manifest;
  PlanOptions plan;       // its modes
  CheckOptions check;     // its sizes, and the project's lint settings
  std::string plan_file;  // the committed plan; empty: none
};

// The targets of a project file, in its order.
std::optional<std::vector<std::string>> TargetNames(const std::string& project,
                                                    Findings& findings);

// Errors: there is no such target, something is not named or cannot be read;
// all files are read before anything is refused.
std::optional<Target> OpenTarget(const TargetRequest& request,
                                 Findings& findings);

// `builtin:llama/hf` and others: what `rules` takes besides files.
std::vector<std::string> PackNames();

}  // namespace shardc::SHARDC_V1

#endif  // SHARDC_SHARDC_TARGET_H_
