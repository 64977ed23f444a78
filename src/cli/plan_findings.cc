#include "cli/plan_findings.h"

namespace shardc::cli {

Findings PlanFindings(const Compiled& compiled) {
  Findings findings;
  (void)compiled;
  return findings;
}

}  // namespace shardc::cli
