// All that `shardc cost` says of a plan in one mode.
#ifndef SHARDC_COST_REPORT_H_
#define SHARDC_COST_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/communication.h"
#include "cost/memory.h"
#include "cost/settings.h"
#include "cost/time.h"
#include "cost/work.h"

namespace shardc::cost {

struct Report {
  std::string target;  // its name; may be empty
  Mode mode = Mode::kTrain;
  Mesh mesh;
  Settings settings;
  Memory memory;
  Communication communication;
  std::optional<Time> time;              // nothing without a profile or tokens
  std::optional<double> flops;           // of a device in a step
  std::optional<int64_t> tokens;         // of all devices in a step
  std::vector<std::string> assumptions;  // what was taken for granted
};

// What is sent is what `program` says, where there is one.
Report ReportOf(const Work& work, const Settings& settings,
                std::optional<Communication> program = std::nullopt);

}  // namespace shardc::cost

#endif  // SHARDC_COST_REPORT_H_
