// All that `shardc cost` says of a plan in one mode.
#ifndef SHARDC_COST_REPORT_H_
#define SHARDC_COST_REPORT_H_

#include <string>
#include <vector>

#include "cost/memory.h"
#include "cost/settings.h"
#include "cost/work.h"

namespace shardc::cost {

struct Report {
  std::string target;  // its name; may be empty
  Mode mode = Mode::kTrain;
  Mesh mesh;
  Settings settings;
  Memory memory;
  std::vector<std::string> assumptions;  // what was taken for granted
};

Report ReportOf(const Work& work, const Settings& settings);

}  // namespace shardc::cost

#endif  // SHARDC_COST_REPORT_H_
