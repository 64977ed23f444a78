// All results of `shardc cost` for a plan in one mode.
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
  std::string target;  // may be empty
  Mode mode = Mode::kTrain;
  // The ranks of a pipeline that the report is about, such as "ranks 1-6".
  // Empty if the report is about all devices.
  std::string ranks;
  Mesh mesh;
  Settings settings;
  Memory memory;
  Communication communication;
  std::optional<Time> time;              // nullopt without a profile or tokens
  std::optional<ExpectedTime> expected;  // only in training, with `time`
  std::optional<double> flops;           // operations per device and step
  std::optional<int64_t> tokens;         // of all devices per step
  std::vector<std::string> assumptions;  // sentences for the user
};

// Makes the report. Uses the communication `program` if it is given, and
// otherwise computes the communication by formulas.
Report ReportOf(const CostInputs& work, const Settings& settings,
                std::optional<Communication> program = std::nullopt);

}  // namespace shardc::cost

#endif  // SHARDC_COST_REPORT_H_
