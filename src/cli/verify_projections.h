// Adds to the report of `shardc verify` whether the plan's attention
// projections have the same sharding of heads as the attention cases.
#ifndef SHARDC_CLI_VERIFY_PROJECTIONS_H_
#define SHARDC_CLI_VERIFY_PROJECTIONS_H_

#include "cli/verify_request.h"
#include "verify/report.h"

namespace shardc::cli {

// Sets Report::projections to the compared projections of the plan. Adds a
// remark for each reason why parameters were not compared.
void AddProjections(const VerifyWork& work, verify::Report& report);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_PROJECTIONS_H_
