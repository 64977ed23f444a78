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

// As given; empty if not given.
struct StageFlags {
  std::string axis, assign, virtual_stages, schedule;
  std::string p2p = "overlapped";

  // `--stages none`: what files declare is ignored.
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

// What the stages of a command depend on besides flags and files.
struct StageSizes {
  Mode mode = Mode::kTrain;
  std::optional<int64_t> batch, length;
  std::optional<int64_t> microbatches;  // of a flag
};

// The model divided into stages: as the target was when it was compiled, or
// where flags replace a part of its declaration, or it has none, as they give.
// `declared` (null without) are those of the rules and of the target, as they
// were opened; `config` may be null. Without micro-batches the target's own, or
// about two for each rank; 1 without a declaration. Findings: usage, and those
// of DeclaredRequest and DivideIntoStages.
std::shared_ptr<const PlannedStages> StagesOfCommand(
    const StageFlags& flags, const StageDeclaration* declared,
    const Compiled& compiled, const ModelConfig* config,
    const StageSizes& sizes, Findings& findings);

// StagesOfCommand for a target with declared stages, without the sizes that
// the cost model needs.
std::shared_ptr<const PlannedStages> DeclaredOrMergedStages(
    const StageFlags& flags, const StageDeclaration& declared,
    const Compiled& compiled, const ModelConfig* config,
    std::optional<int64_t> microbatches, Findings& findings);

// The stages of a plan file, which flags cannot replace; micro-batches of a
// flag win over the plan's. Findings: usage, and those of StagedPlanOf.
std::optional<StagedPlan> PlanStagesOfCommand(const StageFlags& flags,
                                              const PlanView& view,
                                              const StageSizes& sizes,
                                              Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_STAGE_FLAGS_H_
