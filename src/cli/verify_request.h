// The flags of `shardc verify`. Together with a target, a model's config.json
// and defaults, they select the cases to run.
#ifndef SHARDC_CLI_VERIFY_REQUEST_H_
#define SHARDC_CLI_VERIFY_REQUEST_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/ranks.h"
#include "model/mesh.h"
#include "model/operation_settings.h"
#include "model/project.h"
#include "plan/compile.h"
#include "resolve/resolve.h"
#include "source/finding.h"
#include "verify/cases/matrix.h"
#include "verify/report.h"

namespace shardc::cli {

// The settings of `verify`'s operations. From the highest to the lowest
// precedence, they come from options, the record of the operation in --settings
// FILE, the file's defaults, and the model's config.json.

struct SettingsFlags {
  std::string file;
  std::array<std::optional<std::string>, kSettingNames.size()> texts;
};

Options OptionsOf(SettingsFlags& flags);

// Returns the settings of a target, which are in a file or in the project file.
// If the target has no settings, the result is empty. Returns nullopt after
// findings about errors in the settings.
std::optional<OperationsFile> TargetSettings(
    const VerifyInput& input, std::span<const KnownOperation> operations,
    Findings& findings);

// Sets `request.records` to the settings of the request's operations. Also sets
// what depends on the model: whether attention has sinks, the rotation of keys
// (RoPE), and the remarks on settings of the model. Without --settings, the
// target's settings are read. Returns false after a finding: an error in the
// file or in an option, an option that no operation of the request uses, or an
// axis that the mesh lacks.
bool ChooseSettings(const SettingsFlags& flags, const VerifyInput& input,
                    const ModelConfig* model, const Mesh& mesh,
                    verify::Request& request, Findings& findings);

struct VerifyFlags {
  InputFlags inputs;
  SettingsFlags settings;
  std::string attention, batch, length, kv_length;
  std::vector<std::string> operations, layouts, dtypes, features;
  Strings mode;
  std::string kv_dtype, steps, seed, dump, metrics = "reduced";
  bool full = false, list = false;
};

Options OptionsOf(VerifyFlags& flags);

// Reads the option of a count of rows or tokens into `to`, which is not changed
// without a text. Returns false after a finding.
bool ReadCountOption(std::string_view flag, const std::string& text,
                     int64_t& to, Findings& findings);

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

// Functions that `shardc verify` and `shardc verify step` share. They start
// the run on several processes if a launcher such as mpirun started them.

// Numbers of bytes, summed over all cases or steps of a run. `recorded`: bytes
// that the simulated mesh recorded for its collectives. `moved`: bytes that
// devices sent to each other. `crossed`: the part of `moved` that was sent to
// another process.
struct MovedBytes {
  int64_t recorded = 0, moved = 0, crossed = 0;
};
// Prints the bytes on stderr if there are several processes.
void ReportMovedBytes(const MovedBytes& bytes, const Ranks& ranks,
                      const Common& common);

// Joins the processes that a launcher started, runs `body`, and returns the
// exit status.
int RunOverRanks(const std::function<int(const Ranks&)>& body,
                 Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_REQUEST_H_
