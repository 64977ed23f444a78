// What a simulation can hold, judged before anything is made.
#ifndef SHARDC_VERIFY_CASES_LIMITS_H_
#define SHARDC_VERIFY_CASES_LIMITS_H_

#include "model/mesh.h"
#include "source/finding.h"
#include "verify/cases/matrix.h"

namespace shardc::verify {

// One of each at least, heads in whole groups, queries no longer than their
// keys. Findings: usage.
bool CheckSizes(const Sizes& sizes, Findings& findings);
// Devices, logits, numbers and pages of a request. Findings: usage.
bool CheckWork(const Request& request, const Mesh& mesh, Findings& findings);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_CASES_LIMITS_H_
