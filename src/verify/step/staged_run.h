// Runs a step on the ranks of a pipeline: each rank has its own memory and
// mesh, runs its row of the schedule's table, and sends messages to other ranks
// over channels.
#ifndef SHARDC_VERIFY_STEP_STAGED_RUN_H_
#define SHARDC_VERIFY_STEP_STAGED_RUN_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "exec/machine/mesh_sim.h"
#include "exec/machine/seams.h"
#include "exec/step/run.h"
#include "schedule/channels.h"
#include "verify/step/prove.h"
#include "verify/step/staged_step.h"

namespace shardc::verify {

// The changes that an injected fault makes to a run.
struct StagedFaults {
  // True: at the end of the step, each sum of gradients treats the terms of
  // other ranks as zero.
  bool adds_own_alone = false;
  // The number of frames whose activations a rank can hold. A frame is one
  // micro-batch of one stage. If there are more frames, the oldest frames are
  // lost.
  int64_t most_held = std::numeric_limits<int64_t>::max();
  // A function that is called after each task that adds gradients. `slots` has
  // the inputs and the sums of gradients of the rank, indexed by slot.
  std::function<void(int32_t rank, std::vector<exec::PerDevice>& slots)>
      after_weights = {};
};

struct StagedRunRequest {
  const step::Graph* graph = nullptr;
  const step::Program* program = nullptr;
  const StagedProgram* staged = nullptr;
  const schedule::Table* table = nullptr;
  // Sends and receives of the table.
  const schedule::Programs* programs = nullptr;
  schedule::ChannelScope scope = schedule::ChannelScope::kPairAndKind;
  int threads = 1;
  StagedFaults faults = {};
};

struct StagedTraffic {
  int64_t messages = 0;  // messages sent between ranks during the tasks
  // The largest number of frames (one micro-batch of one stage) whose
  // activations a rank holds at the same time.
  int64_t most_held = 0;
};

// Runs the step. Returns every slot of the program, as computed by the first
// rank that computes it. Returns nullopt after it has appended problems: for
// example, a task reads a value that its rank does not hold; a task runs twice;
// a rank waits for ever; two ranks compute different values for one slot.
std::optional<exec::StepRun> RunStaged(const StagedRunRequest& request,
                                       const exec::SimMesh& mesh,
                                       const exec::Seams& seams,
                                       const exec::StepInputs& inputs,
                                       std::vector<StepProblem>& problems,
                                       StagedTraffic* traffic = nullptr);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STAGED_RUN_H_
