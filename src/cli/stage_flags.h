// The options of commands that divide a model into the stages of a pipeline.
#ifndef SHARDC_CLI_STAGE_FLAGS_H_
#define SHARDC_CLI_STAGE_FLAGS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/inputs.h"
#include "cli/option.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/stages.h"
#include "plan/compile.h"
#include "plan/planned_stages.h"
#include "plan/staged_plan.h"
#include "plan/stages.h"
#include "source/finding.h"

namespace shardc::cli {

// The options as given; empty if not given.
struct StageFlags {
  std::string axis, assign, virtual_stages, schedule;
  std::string p2p = "overlapped";

  // `--stages none`: stages that files declare are ignored.
  bool None() const { return axis == "none"; }
  bool Given() const { return !axis.empty() && !None(); }
  bool Exposed() const { return p2p == "exposed"; }
};

Options OptionsOf(StageFlags& flags);

// A target that was opened and compiled.
struct StagedTarget {
  std::optional<ModelConfig> model;
  // The stages of the rules and of the target; none under `--stages none`.
  std::optional<StageDeclaration> declared;
  std::unique_ptr<const Compiled> compiled;  // null after a finding

  const ModelConfig* config() const { return model ? &*model : nullptr; }
  const StageDeclaration* stages() const {
    return declared ? &*declared : nullptr;
  }
};
StagedTarget CompileStaged(const StageFlags& flags, const InputFlags& inputs,
                           const Target& target, const Common& common,
                           Findings& findings);

// The sizes of a step on which the division into stages depends.
struct StageSizes {
  Mode mode = Mode::kTrain;
  std::optional<int64_t> batch, length;
  std::optional<int64_t> microbatches;  // of a flag
};

// Returns the model divided into stages; null after a finding. If flags change
// nothing, these are the stages with which the target was compiled. Otherwise
// the model is divided by the declaration of the rules or the target, whose
// keys flags override, or by flags alone if `declared` is null. `config` may be
// null. The default number of micro-batches is that of the declaration, else
// about two per rank; without a declaration it is 1. Findings: usage, and those
// of DeclaredRequest and DivideIntoStages.
std::shared_ptr<const PlannedStages> StagesOfCommand(
    const StageFlags& flags, const StageDeclaration* declared,
    const Compiled& compiled, const ModelConfig* config,
    const StageSizes& sizes, Findings& findings);

// As StagesOfCommand, for a target with declared stages and commands that have
// no batch and length, so that the cost model cannot choose the division.
std::shared_ptr<const PlannedStages> DeclaredOrMergedStages(
    const StageFlags& flags, const StageDeclaration& declared,
    const Compiled& compiled, const ModelConfig* config,
    std::optional<int64_t> microbatches, Findings& findings);

// Returns the stages of a plan file. Of these, flags can override only the
// number of micro-batches. Findings: usage, and those of StagedPlanOf.
std::optional<StagedPlan> PlanStagesOfCommand(const StageFlags& flags,
                                              const PlanView& view,
                                              const StageSizes& sizes,
                                              Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_STAGE_FLAGS_H_
