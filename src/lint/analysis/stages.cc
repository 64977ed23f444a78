#include "lint/analysis/stages.h"

#include "plan/planned_stages.h"

namespace shardc {

std::string StageAxis(const Facts& facts) {
  const PlannedStages* stages = facts.inputs().stages;
  return stages == nullptr ? std::string() : stages->axis;
}

}  // namespace shardc
