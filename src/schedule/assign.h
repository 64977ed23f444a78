// Divides a chain of units (the embedding, the layers, the head) into pipeline
// stages.
#ifndef SHARDC_SCHEDULE_ASSIGN_H_
#define SHARDC_SCHEDULE_ASSIGN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace shardc::schedule {

struct Unit {
  double time = 0;    // for one micro-batch, forward and backward
  int64_t bytes = 0;  // held during the whole step
  int64_t kept = 0;   // bytes of the activations of one micro-batch
};

// The first unit of each stage, followed by the number of units: {0, 9, 18, 26,
// 34} are four stages. A stage may be empty, but the first unit is in the first
// stage and the last unit in the last stage.
using StageBounds = std::vector<int64_t>;

// Returns the division whose longest stage is shortest, among the divisions
// whose stages all have at most `capacity` bytes; if `capacity` is nullopt,
// there is no limit. Stage s holds the activations of `in_flight[s]`
// micro-batches. Among divisions with equally long stages, the one whose
// fullest stage has the fewest bytes is preferred. This choice is made for each
// prefix of the units separately, so a division with fewer bytes may exist.
// Returns nullopt if no division fits, or if there are no units, no stages, or
// one unit for several stages. Takes stages * units^2 steps.
std::optional<StageBounds> AssignUnits(std::span<const Unit> units,
                                       std::span<const int64_t> in_flight,
                                       std::optional<int64_t> capacity);

// Divides layers evenly: stage s of S begins at layer s * layers / S. The first
// stage has the first unit (the embedding) as well, and the last stage the last
// unit (the head).
StageBounds EvenStages(int64_t layers, int64_t stages);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_ASSIGN_H_
