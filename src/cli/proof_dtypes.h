// The dtypes in which `verify step` proves a step.
#ifndef SHARDC_CLI_PROOF_DTYPES_H_
#define SHARDC_CLI_PROOF_DTYPES_H_

#include <vector>

#include "cli/option.h"
#include "model/dtype.h"
#include "source/finding.h"

namespace shardc::cli {

// Reads `--dtype`. Without this option, the dtype is float64. Returns false
// after a finding.
bool ReadProofDtypes(const Strings& texts, std::vector<Dtype>& out,
                     Findings& findings);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PROOF_DTYPES_H_
