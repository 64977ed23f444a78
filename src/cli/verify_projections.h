// Adds to the report of `shardc verify` whether the plan's attention
// projections have the same sharding of heads as the attention cases.
#ifndef SHARDC_CLI_VERIFY_PROJECTIONS_H_
#define SHARDC_CLI_VERIFY_PROJECTIONS_H_

#include "cli/verify_request.h"
#include "verify/report.h"

namespace shardc::cli {

// Compares how each attention projection of the plan shards its heads with how
// the attention cases shard heads. Sets Report::projections to the results.
// Adds a remark for each reason why projections could not be compared.
void AddProjections(const VerifyWork& work, verify::Report& report);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_VERIFY_PROJECTIONS_H_
