// Correct small steps on the ranks of a pipeline: one for each schedule, and
// some with other sizes.
#ifndef SHARDC_TESTS_VERIFY_STEP_STAGED_CASES_H_
#define SHARDC_TESTS_VERIFY_STEP_STAGED_CASES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/channels.h"
#include "schedule/table.h"
#include "step/accumulate.h"
#include "verify/step/sound_cases.h"
#include "verify/step/staged_step.h"

namespace shardc::verify {

// The kind of a step. Its model has attention, a tied embedding, masked tokens
// and dropout, and layers of experts if `experts` is true.
struct StagedCaseKind {
  std::string_view schedule = "1f1b";
  schedule::Extent extent = {2, 1, 4};
  // The number of layers of each stage.
  std::vector<int64_t> layers = {1, 1};
  int64_t dp = 2, tp = 2;  // axis sizes of each rank's mesh
  bool experts = false;  // true: layers of experts, and axis ep in place of dp
  bool recompute = false;
  step::Reduction reduction = step::Reduction::kSharded;
};

struct StagedCase : SoundCase {
  StagedStep step = {};

  // The parts of a run of Prove that an injected fault may replace. Prove runs
  // the case on its pipeline ranks and compares every value with the dense
  // step.
  struct Changes {
    const schedule::Table* table = nullptr;  // null: the case's own table
    // Null: computed from the table.
    const schedule::Programs* programs = nullptr;
    const StagedStep* step = nullptr;  // null: the case's own step
    schedule::ChannelScope scope = schedule::ChannelScope::kPairAndKind;
    exec::Seams seams = {};
    StagedFaults faults = {};
  };
  StepProof Prove(const Changes& changes, StagedTraffic* traffic) const;
};

// Makes a case. Returns null if the schedule does not support the sizes, or if
// the case cannot be lowered.
std::unique_ptr<StagedCase> MakeStagedCase(const StagedCaseKind& kind);
// Returns the kind of step into which the faults of a schedule are injected.
StagedCaseKind SmallStagedCase(std::string_view schedule);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_STEP_STAGED_CASES_H_
