// Judges the stages of a pipeline that a target declares.
#ifndef SHARDC_LINT_ANALYSIS_STAGES_H_
#define SHARDC_LINT_ANALYSIS_STAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// Returns the mesh axis whose ranks hold the stages; empty without stages.
std::string StageAxis(const Facts& facts);
Place StagesPlace(const Facts& facts);

// Returns the end of a message about the bytes that a device of each rank
// sends: ", each added over the 4 ranks of the pipeline". Empty with a single
// rank.
std::string AddedOverRanks(const Facts& facts);

// Return a factor and a percentage as texts: "1.21" and "27.3 %".
std::string TimesText(double times);
std::string PartText(double part);

// A division in which one stage takes clearly longer than the mean.
struct UnevenStages {
  int32_t stage = 0;   // the stage that takes longest
  double times = 1;    // its multiplications for a token, over the mean
  int64_t layers = 0;  // of `stage`
  // The layers of each stage in the division whose longest stage is the
  // shortest, and that stage's time as a multiple of the mean.
  std::vector<int64_t> better;
  double better_times = 1;
};
// Returns nullopt if the target declares no stages, if they are even, if no
// other division is clearly more even, if a tensor has scanned layers, or if
// the search would take too long.
std::optional<UnevenStages> UnevenStagesOf(const Facts& facts);

// A schedule with a large bubble, if all tasks have the same length.
struct LargeBubble {
  double part = 0;  // share of the step's time that is bubble
  std::string schedule;
  int32_t ranks = 0, microbatches = 0;
  // A schedule with a clearly smaller bubble that holds no more activations;
  // empty if there is none.
  std::string better;
  double better_part = 0;
  // Activations, each of one stage and micro-batch, that the rank with the most
  // holds.
  int64_t held = 0;
};
// Returns nullopt if the target declares no stages on two or more ranks, if the
// bubble is small, if the number of micro-batches is not known, or if the
// schedule has too many tasks.
std::optional<LargeBubble> LargeBubbleOf(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_STAGES_H_
