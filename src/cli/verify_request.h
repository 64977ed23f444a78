// `shardc verify`'s flags, and what to run that they, a target, a model's
// config.json and the defaults ask for together.
#ifndef SHARDC_CLI_VERIFY_REQUEST_H_
#define SHARDC_CLI_VERIFY_REQUEST_H_

#include <optional>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/settings_flags.h"
#include "model/mesh.h"
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
  // Of a whole step.
  Strings steps_of;
  std::string batch, length, policy, part;
  bool keep_gathered = false;
  std::string remat, microbatches;
  bool reduce_each = false;
  bool full = false, self_test = false, list = false;
};

Options OptionsOf(VerifyFlags& flags);

// Null after a finding at `place`, or of the flag where there is none.
const exec::Operation* NamedOperation(const std::string& name,
                                      const Place& place, Findings& findings);

struct VerifyWork {
  verify::Request request;
  verify::Matrix matrix;
  // The operations were named, so each must be supported.
  bool asked = false;
};

// Findings (usage, reading): nothing is to be run.
std::optional<VerifyWork> MakeVerifyWork(const VerifyFlags& flags,
                                         Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_REQUEST_H_
