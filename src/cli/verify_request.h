// The flags of `shardc verify`. Together with a target, a model's config.json
// and defaults, they select the cases to run.
#ifndef SHARDC_CLI_VERIFY_REQUEST_H_
#define SHARDC_CLI_VERIFY_REQUEST_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/settings_flags.h"
#include "model/mesh.h"
#include "model/project.h"
#include "plan/compile.h"
#include "resolve/resolve.h"
#include "source/finding.h"
#include "verify/cases/matrix.h"

namespace shardc::cli {

struct VerifyFlags {
  InputFlags inputs;
  SettingsFlags settings;
  std::string attention;
  std::vector<std::string> operations, layouts, dtypes, features;
  Strings mode;
  std::string kv_dtype, steps, seed, dump, metrics = "reduced";
  bool full = false, list = false;
};

Options OptionsOf(VerifyFlags& flags);

// Returns the operation of this name. If there is none, returns null and adds a
// finding at `place`, which may be empty.
const exec::Operation* NamedOperation(const std::string& name,
                                      const Place& place, Findings& findings);

struct VerifyWork {
  verify::Request request;
  verify::Matrix matrix;
  // Whether a flag or the target named operations. It is a failure if a named
  // operation is not supported.
  bool asked = false;
  // `has_rules`: whether rules files were named. `compiled`: the plan of the
  // rules and the manifest; null if one of the two is missing.
  bool has_rules = false;
  std::shared_ptr<const Compiled> compiled;
  std::optional<ModelConfig> model;
};

// Makes the work of a run. Returns nullopt, and adds findings, if a flag or a
// file is invalid or if the work is too large for a simulation. Cases of a
// large mesh run on a reduced mesh, whose axes are smaller. It has at least one
// device for each of `processes` processes.
std::optional<VerifyWork> MakeVerifyWork(const VerifyFlags& flags,
                                         int64_t processes,
                                         const Common& common,
                                         Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_REQUEST_H_
