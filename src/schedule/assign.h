// Divides a chain of units (the embedding, the layers, the output head) into
// pipeline stages.
#ifndef SHARDC_SCHEDULE_ASSIGN_H_
#define SHARDC_SCHEDULE_ASSIGN_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace shardc::schedule {

struct Unit {
  double time = 0;    // relative time of a micro-batch, forward and backward
  int64_t bytes = 0;  // bytes that are held during the whole step
  int64_t kept = 0;   // bytes of activations that one micro-batch keeps
};

// The index of the first unit of each stage, followed by the number of units.
// For example, {0, 9, 18, 26, 34} are four stages. A stage may be empty, but
// the first unit is in the first stage and the last unit in the last stage.
using StageBounds = std::vector<int64_t>;

// Returns the division whose longest stage is the shortest. Only divisions are
// considered in which no stage has more than `capacity` bytes; nullopt sets no
// limit. Stage s holds the activations of `in_flight[s]` micro-batches. If
// several divisions have equally long stages, the one whose fullest stage has
// the fewest bytes is preferred. This preference is applied to each prefix of
// the units separately, so a division with fewer bytes may exist. Returns
// nullopt if no division fits, or if there are no units, no stages, or one unit
// for several stages. The run time is proportional to stages * units^2.
std::optional<StageBounds> AssignUnits(std::span<const Unit> units,
                                       std::span<const int64_t> in_flight,
                                       std::optional<int64_t> capacity);

// Divides layers evenly: stage s of S begins at layer s * layers / S. The first
// stage also has the first unit (the embedding), and the last stage the last
// unit (the output head).
StageBounds EvenStages(int64_t layers, int64_t stages);

}  // namespace shardc::schedule

#endif  // SHARDC_SCHEDULE_ASSIGN_H_
