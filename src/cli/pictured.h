// Collects data about a plan that both the terminal pictures and the HTML page
// show.
#ifndef SHARDC_CLI_PICTURED_H_
#define SHARDC_CLI_PICTURED_H_

#include <optional>
#include <span>
#include <string>

#include "cli/command.h"
#include "cli/cost_flags.h"
#include "cli/planned.h"
#include "cost/pipeline.h"
#include "cost/report.h"
#include "cost/settings.h"
#include "emit/pictures/line.h"
#include "model/dtype.h"
#include "model/project.h"
#include "picture/array.h"
#include "picture/fold.h"
#include "source/finding.h"
#include "verify/step/step_report.h"

namespace shardc::cli {

// Returns one bar of memory for each report. The reports must be for different
// modes.
MemoryBars BarsOf(std::span<const cost::Report> reports);

// Returns the parameters for which each rule is the first match, and their
// bytes. For a compiled plan, also returns the number of all names that the
// rule's pattern matches.
picture::Coverage CoverageIn(const Planned& planned,
                             const picture::FoldedPlan& folded);

struct CacheArray {
  std::string title;  // for example `key, value (decode)`
  picture::ArrayInput input;
};
// Returns the KV cache of a mode as an array to draw. Returns nullopt if the
// plan lacks the mode.
std::optional<CacheArray> CacheIn(const Planned& planned,
                                  const cost::Settings& settings, Mode mode);

// Defines the options that set the characters, the width and the colours of
// pictures. If the output is not a terminal, the width is fixed and the
// characters are UTF-8, unless options change that.

struct PictureFlags {
  bool ascii = false;
  std::string width;
};

Options OptionsOf(PictureFlags& flags);
// Returns the style that the flags describe. Returns nullopt and adds a finding
// if the width is invalid.
std::optional<PictureStyle> StyleOf(const PictureFlags& flags,
                                    const Common& common, Findings& findings);

// Returns the cost inputs of a compiled target. Returns nullopt after a finding
// if a spec is illegal, or if axes do not divide the heads.
std::optional<cost::CostInputs> CompiledWork(const StagedTarget& target,
                                             Mode mode, Findings& findings);

// Returns the cost of the stages into which the flags or the target's
// declaration divide the model. Returns nullopt after a finding.
std::optional<cost::PipelineCost> CostOfStages(const StagedTarget& target,
                                               const cost::CostInputs& work,
                                               const cost::Settings& settings,
                                               bool exposed,
                                               const StageSizes& sizes,
                                               Findings& findings);

// Returns the cost of the stages in training, with the number of micro-batches
// of the plan's schedule. `planned` must have stages. Returns nullopt after a
// finding: `settings` has no batch or length, or StagedPlanOf or
// cost::PipelineCostOf fails.
std::optional<cost::PipelineCost> StagedCostOf(const Planned& planned,
                                               const cost::Settings& settings,
                                               Findings& findings);

MemoryBars BarsOfRanks(const cost::PipelineCost& cost, int64_t devices);

// The options of a step that are settings of `cost`, with the same meaning.
struct StepSettingFlags {
  std::string activations, gradients, cache, zero, remat, reduce;
};
// Returns the options of dtypes and of the ZeRO stage.
Options StepSettingOptions(StepSettingFlags& flags);
// Sets the members of the request that the settings determine, and returns the
// settings. Returns nullopt after findings.
std::optional<cost::Settings> ReadSettingsOfStep(const StepSettingFlags& flags,
                                                 verify::StepRequest& request,
                                                 Findings& findings);

// Returns the memory of the request's step, or nullopt if `cost` cannot
// estimate it.
std::optional<verify::StepMemory> MemoryOfStep(
    const verify::StepRequest& request, const cost::Settings& given,
    const std::optional<ModelConfig>& model);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PICTURED_H_
