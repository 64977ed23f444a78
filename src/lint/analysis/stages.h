// Finds uneven stages and long idle times in the pipeline that a target
// declares.
#ifndef SHARDC_LINT_ANALYSIS_STAGES_H_
#define SHARDC_LINT_ANALYSIS_STAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// Returns the mesh axis over which the stages of the pipeline are divided, or
// an empty text if no stages are declared.
std::string StageAxis(const Facts& facts);
Place StagesPlace(const Facts& facts);

// Returns the end of a message that states how many bytes a device sends. If
// the stages of a pipeline are on several ranks, each number is the sum over
// the ranks: ", each added over the 4 ranks of the pipeline". Otherwise the
// text is empty.
std::string AddedOverRanks(const Facts& facts);

// TimesText returns a factor as text: "1.21". PartText returns a percentage as
// text: "27.3 %".
std::string TimesText(double times);
std::string PartText(double part);

// A division of layers in which one stage takes clearly longer than the mean.
struct UnevenStages {
  int32_t stage = 0;   // the stage that takes longest
  double times = 1;    // its time as a multiple of the mean
  int64_t layers = 0;  // number of layers in `stage`
  // The number of layers of each stage in the best division of the layers. It
  // is the division whose longest stage takes the least time, which is
  // `better_times` times the mean.
  std::vector<int64_t> better;
  double better_times = 1;
};
// Returns the uneven stages of the target's division. Returns nullopt if the
// target declares no stages, if the stages are even, if no other division is
// clearly better, if a tensor has scanned layers, or if the search would take
// too long.
std::optional<UnevenStages> UnevenStagesOf(const Facts& facts);

// A schedule whose bubble (idle time of the ranks) is large, if all tasks take
// equally long.
struct LargeBubble {
  double part = 0;  // bubble as a fraction of the step's time
  std::string schedule;
  int32_t ranks = 0, microbatches = 0;
  // A schedule with a clearly smaller bubble that needs no more memory for
  // activations. Empty if there is no such schedule. `better_part` is its
  // bubble.
  std::string better;
  double better_part = 0;
  // The number of activations that the fullest rank holds at once. Each
  // activation belongs to one stage and one micro-batch.
  int64_t held = 0;
};
// Returns the schedule of the target. Returns nullopt if the target declares no
// stages on two or more ranks, if the bubble is small, if the number of
// micro-batches is unknown, or if the schedule has too many tasks.
std::optional<LargeBubble> LargeBubbleOf(const Facts& facts);

// A schedule with several stages on a rank whose number of micro-batches is no
// multiple of the ranks.
struct UnevenRounds {
  std::string schedule;
  int32_t stages = 0, ranks = 0, microbatches = 0;
};
// Returns the schedule of the target. Returns nullopt if the target declares no
// such schedule, if the number of micro-batches is unknown, or if neither
// Megatron-LM nor MaxText has the schedule.
std::optional<UnevenRounds> UnevenRoundsOf(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_STAGES_H_
