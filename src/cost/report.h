// The results of `shardc cost` for a plan in one mode.
#ifndef SHARDC_COST_REPORT_H_
#define SHARDC_COST_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/communication.h"
#include "cost/expected.h"
#include "cost/inputs.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "cost/time.h"

namespace shardc::cost {

struct Report {
  std::string target;  // the target's name; may be empty
  Mode mode = Mode::kTrain;
  // The ranks of a pipeline that the report describes, such as "ranks 1-6".
  // Empty if the report describes all devices.
  std::string ranks;
  Mesh mesh;
  Settings settings;
  Memory memory;
  Communication communication;
  // Nullopt if the device has no profile, or if the tokens are unknown.
  std::optional<Time> time;
  // Set only in training, if `time` is set.
  std::optional<ExpectedTime> expected;
  // The floating-point operations of a device in a step.
  std::optional<double> flops;
  // The tokens of a step, summed over all devices.
  std::optional<int64_t> tokens;
  // Returns whether the caller asked for a verdict that is not known: whether a
  // step fits the memory of a device, or how long it takes on a profile. A
  // caller who gives no batch needs only what devices hold in any step.
  bool LacksVerdict() const;
  // Sentences that the report prints about the assumptions behind its figures.
  std::vector<std::string> assumptions;
};

// Returns whether a report prints the assumption even if its other assumptions
// are not asked for: the user may expect something else.
bool IsAlwaysShown(std::string_view assumption);

// Appends what is assumed about a training step of a model with experts.
// `one_stage` states that the step is a pipeline without virtual stages.
// Nothing is appended for other models, but for an option without effect.
void AddExpertAssumptions(const CostInputs& work, const Settings& settings,
                          bool one_stage, std::vector<std::string>& out);

// Returns how far the expected times are from the measured steps to which the
// profile's figures were fitted. Returns an empty text if there are none or,
// with `pipelines`, if none of them is of a pipeline. `profile` may be null.
std::string MeasuredText(const DeviceProfile* profile, bool pipelines = false);

// Makes the report. If `program` is given, the report uses this communication
// of the lowered program. Otherwise the communication is computed by formulas.
Report ReportOf(const CostInputs& work, const Settings& settings,
                std::optional<Communication> program = std::nullopt);

}  // namespace shardc::cost

#endif  // SHARDC_COST_REPORT_H_
