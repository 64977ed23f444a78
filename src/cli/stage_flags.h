// The options of commands that divide a model into the stages of a pipeline.
#ifndef SHARDC_CLI_STAGE_FLAGS_H_
#define SHARDC_CLI_STAGE_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "cli/option.h"
#include "model/mesh.h"
#include "model/project.h"
#include "model/stages.h"
#include "plan/compile.h"
#include "plan/planned_stages.h"
#include "plan/stages.h"
#include "source/finding.h"
#include "target/choose.h"

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

// The stages of the rules and of the target, unless `--stages none`. Returns
// false after a finding.
bool ReadDeclaredStages(const StageFlags& flags, const Target& target,
                        const TargetRequest& asked, const RuleSet& rules,
                        std::optional<StageDeclaration>& out,
                        Findings& findings);

// What the stages of a command depend on besides flags and files.
struct StageSizes {
  Mode mode = Mode::kTrain;
  std::optional<int64_t> batch, length;
  std::optional<int64_t> microbatches;  // nullopt: those of a schedule's file
};

// The micro-batches of a flag, else those of the file, else 1.
std::optional<int64_t> StageMicrobatches(bool given, int64_t flag,
                                         const StageDeclaration* declared);

// The stages over an axis of the mesh: those of the flags, and where they leave
// something out those of `declared`, which may be null. Findings: usage, and
// those of making the schedule.
std::optional<StageRequest> StageRequestOf(const StageFlags& flags,
                                           const StageDeclaration* declared,
                                           const Mesh& mesh,
                                           const StageSizes& sizes,
                                           Findings& findings);

// The stages of a file, with those keys replaced that flags give. Without
// micro-batches the file's own, or about two for each rank.
std::optional<StageRequest> MergedStages(const StageFlags& flags,
                                         const StageDeclaration& declared,
                                         const Mesh& mesh,
                                         std::optional<int64_t> microbatches,
                                         Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_STAGE_FLAGS_H_
