// The options of `cost` that divide a model into the stages of a pipeline.
#ifndef SHARDC_CLI_STAGE_FLAGS_H_
#define SHARDC_CLI_STAGE_FLAGS_H_

#include <optional>
#include <string>

#include "cli/option.h"
#include "cost/pipeline.h"
#include "source/finding.h"

namespace shardc::cli {

struct StageFlags {
  std::string axis, assign, virtual_stages, schedule = "1f1b";
  std::string p2p = "overlapped";
};

Options OptionsOf(StageFlags& flags);

// Returns the stages over an axis of the mesh; nullopt after findings: usage,
// and those of making the schedule.
std::optional<cost::StageRequest> StageRequestOf(const StageFlags& flags,
                                                 const Mesh& mesh,
                                                 const cost::Settings& settings,
                                                 Mode mode, Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_STAGE_FLAGS_H_
