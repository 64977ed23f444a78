// The flags of `shardc verify`, and the cases that flags, a target, a model's
// config.json and the defaults select together.
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
  bool full = false, self_test = false, list = false;
};

Options OptionsOf(VerifyFlags& flags);

// Returns null, and adds a finding at `place` (of --operation where the place
// is empty), if no operation has the name.
const exec::Operation* NamedOperation(const std::string& name,
                                      const Place& place, Findings& findings);

struct VerifyWork {
  verify::Request request;
  verify::Matrix matrix;
  // Operations were named by a flag or the target, so each must be supported.
  bool asked = false;
  // Whether rules were named, and what they compile to with the manifest; null
  // without one.
  bool has_rules = false;
  std::shared_ptr<const Compiled> compiled;
  std::optional<ModelConfig> model;
};

// Returns nullopt, and adds findings (usage, reading), where a flag or a file
// is wrong or the work is more than a simulation can hold. The reduced mesh has
// a device for each of the processes.
std::optional<VerifyWork> MakeVerifyWork(const VerifyFlags& flags,
                                         int64_t processes,
                                         const Common& common,
                                         Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_REQUEST_H_
