// Evaluates a mesh on which the model is divided into the stages of a pipeline.
#ifndef SHARDC_COST_FIT_STAGES_H_
#define SHARDC_COST_FIT_STAGES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "model/mesh.h"
#include "plan/compile.h"
#include "plan/stages.h"
#include "source/finding.h"

namespace shardc::cost {

// The pipeline axis of a target's meshes, and how the model is divided into
// stages on each mesh.
struct StagesOfMeshes {
  std::string axis;  // a mesh without this axis has no stages
  // Returns the request to divide the model on a mesh. If `microbatches` is
  // given, it replaces the number of micro-batches that the target declares. On
  // failure, adds an error to `findings` and returns nullopt. Several threads
  // may call the function.
  std::function<std::optional<StageRequest>(const Mesh& mesh,
                                            std::optional<int64_t> microbatches,
                                            Findings& findings)>
      request;
  // True if the messages between ranks are exposed: a rank computes nothing
  // while it sends.
  bool exposed = false;
};

struct FitStages {
  std::string axis, schedule;
  int64_t microbatches = 1;
  std::vector<int64_t> layers;  // number of layers of each stage
  double bubble = 0;            // idle fraction of the step
  // The seconds of a step; nullopt without a profile.
  std::optional<double> seconds;
};

// The cost of a pipeline as `fit` compares it with other meshes: the memory of
// the fullest rank, and the bytes that the busiest rank sends.
struct StagedFit {
  FitStages stages;
  Memory memory;
  int64_t communication = 0;
};

// Returns the cost of the model's stages on the mesh of `compiled`, with the
// formulas of the command `cost`. If DivideIntoStages or PipelineCostOf fails,
// adds the error to `findings` and returns nullopt.
std::optional<StagedFit> StagedFitOf(const Compiled& compiled,
                                     const CostInputs& work,
                                     const Settings& settings,
                                     const StageRequest& request, bool exposed,
                                     Findings& findings);

}  // namespace shardc::cost

#endif  // SHARDC_COST_FIT_STAGES_H_
