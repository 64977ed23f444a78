// The stages of a pipeline that a target declares.
#ifndef SHARDC_LINT_ANALYSIS_STAGES_H_
#define SHARDC_LINT_ANALYSIS_STAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lint/analysis/facts.h"

namespace shardc {

// Returns the axis whose ranks have the stages; empty without stages.
std::string StageAxis(const Facts& facts);
// Returns the place of the declaration.
Place StagesPlace(const Facts& facts);

// "1.21", and "27.3 %".
std::string TimesText(double times);
std::string PartText(double part);

// Stages of which one takes clearly more than the others.
struct UnevenStages {
  int32_t stage = 0;   // the longest one
  double times = 1;    // its multiplications of a token, over the mean's
  int64_t layers = 0;  // of that stage
  // The division whose longest stage is shortest: layers of each stage, and
  // its longest stage over the mean.
  std::vector<int64_t> better;
  double better_times = 1;
};
// Returns nullopt if the stages are about as even as the layers allow.
std::optional<UnevenStages> UnevenStagesOf(const Facts& facts);

// A schedule of which much is bubble, with tasks of equal length.
struct LargeBubble {
  double part = 0;  // of the step
  std::string schedule;
  int32_t ranks = 0, microbatches = 0;
  // The schedule with the smallest bubble that holds no more activations; empty
  // if none is smaller.
  std::string better;
  double better_part = 0;
  int64_t held = 0;  // chunks of a micro-batch, on the fullest rank
};
// Returns nullopt if the bubble is small, or the micro-batches are not known.
std::optional<LargeBubble> LargeBubbleOf(const Facts& facts);

}  // namespace shardc

#endif  // SHARDC_LINT_ANALYSIS_STAGES_H_
