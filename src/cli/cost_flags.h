// The options of `cost` and `search`. They describe how a model is trained or
// served, and on which devices.
#ifndef SHARDC_CLI_COST_FLAGS_H_
#define SHARDC_CLI_COST_FLAGS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/inputs.h"
#include "cost/setting_rows.h"
#include "cost/settings.h"
#include "model/mesh.h"
#include "model/project.h"
#include "plan/compile.h"
#include "plan/planned_stages.h"
#include "plan/stage_units.h"
#include "plan/staged_plan.h"
#include "source/finding.h"

namespace shardc::cli {

// The largest number of devices for which `search` tries meshes.
inline constexpr int64_t kMostDevices = 1 << 20;

// The values of the options of cost::SettingRows().
class SettingFlags {
 public:
  SettingFlags();
  // Returns the options of all settings. The values that the command line gives
  // are stored in this object, which must outlive the options.
  Options AsOptions();
  // The value of an option such as "--batch"; empty if it is not given.
  std::string& operator[](std::string_view flag) {
    return values_[RowOf(flag)].text;
  }
  const std::string& operator[](std::string_view flag) const {
    return values_[RowOf(flag)].text;
  }
  // Returns the values of the options and, for options that are not given, of
  // the keys of the target that have an effect in the mode.
  std::vector<cost::GivenSetting> Given(const Target& target, Mode mode) const;
  // Returns the target with the values of the options in place of its own keys.
  Target Replacing(Target target) const;

 private:
  static size_t RowOf(std::string_view flag);
  Option OptionAt(size_t row);
  struct Value {
    std::string text;
    bool on = false;  // of an option without a value
  };
  std::vector<Value> values_;
};

// Returns the option of a setting, for commands that have few of them.
Option OptionOfSetting(std::string_view flag, std::string* to);

struct CostFlags {
  InputFlags inputs;
  std::string mode = "train";
  SettingFlags settings;
};

// Returns the options that fill CostFlags, with the input options at the end.
Options OptionsOfCost(CostFlags& flags);

// Returns the settings that the options describe. The step options, the batch,
// the length of the KV cache, the memory of a device and the attention
// operation of the mode are taken from the target if their options are not
// given. Returns nullopt with findings if an option is invalid.
std::optional<cost::Settings> CostSettings(const CostFlags& flags,
                                           const Target& target, Mode mode,
                                           Findings& findings);
// Returns whether an option or the target gives the number of micro-batches.
bool GivesMicrobatches(const CostFlags& flags, const Target& target, Mode mode);

// The values of the options. An option that is not given is empty, except
// `p2p`.
struct StageFlags {
  std::string axis, assign, virtual_stages, schedule;
  std::string p2p = "overlapped";

  // Returns whether `--stages none` is given. Stages that files declare are
  // then ignored.
  bool None() const { return axis == "none"; }
  bool Given() const { return !axis.empty() && !None(); }
  bool Exposed() const { return p2p == "exposed"; }
};

Options OptionsOf(StageFlags& flags);

// Options such as `--schedule` have no effect on a model without stages.
// Returns false after a finding if such an option is given, but neither a flag
// nor a file (`declared`) divides the model into stages.
bool CheckStageFlags(const StageFlags& flags, bool declared,
                     Findings& findings);

// Replaces keys of the stages that the rules or the target declare by the
// flags. If no file declares stages, `--stages AXIS` declares them, with one
// micro-batch and `--assign cost`. `--stages none` removes the declaration.
// Returns false after a finding.
bool OverrideStages(const StageFlags& flags,
                    std::optional<StageDeclaration>& stages,
                    Findings& findings);

// Opens and compiles a target whose stages the flags override.
StagedTarget CompileStaged(const StageFlags& flags, const InputFlags& inputs,
                           const Target& target, const Common& common,
                           Findings& findings);

// The sizes of a step on which the division into stages depends.
struct StageSizes {
  Mode mode = Mode::kTrain;
  std::optional<int64_t> batch, length;
  std::optional<int64_t> microbatches;  // set if its flag is given
};

// Returns false after a finding if a step of these sizes cannot be divided into
// stages. The step must be training, and its batch and length must be known.
bool CheckStageSizes(const Place& place, const StageSizes& sizes,
                     Findings& findings);

// Returns the stages of a compiled target that declares them, for a step of
// these sizes. The number of micro-batches is that of `sizes`. If `sizes` has
// none, it is that of the declaration, or else about two for each rank of the
// pipeline. Returns null after adding findings.
std::shared_ptr<const PlannedStages> StagesOf(const StagedTarget& target,
                                              const StageSizes& sizes,
                                              Findings& findings);
// Divides a compiled model into declared stages. `config` may be null. A batch
// and a length are not needed here, but without them the cost model cannot
// choose the number of layers of each stage. Returns null after a finding.
std::shared_ptr<const PlannedStages> Divided(
    const Compiled& compiled, const ModelConfig* config,
    const StageDeclaration& declared, std::optional<int64_t> microbatches,
    Findings& findings);

// Returns the request from which these stages are made on a mesh; nullopt after
// a finding.
std::optional<StageRequest> StageRequestOn(const StageDeclaration& declared,
                                           const Mesh& mesh,
                                           std::optional<int64_t> microbatches,
                                           Findings& findings);

// Returns the stages of a plan file. Flags can only set the number of
// micro-batches and the file of the schedule. Returns nullopt after a finding,
// if another flag is given or if StagedPlanOf fails.
std::optional<StagedPlan> PlanStagesOfCommand(const StageFlags& flags,
                                              const ReadPlan& view,
                                              const StageSizes& sizes,
                                              Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COST_FLAGS_H_
