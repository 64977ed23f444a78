// What each fault of the catalogue does: decorators of the seams that programs
// go through (exec/machine/seams.h). This room has all deliberate errors.
#ifndef SHARDC_VERIFY_FAULTS_INJECTION_H_
#define SHARDC_VERIFY_FAULTS_INJECTION_H_

#include "exec/machine/seams.h"
#include "verify/faults/fault.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {

struct Injection {
  exec::Seams seams;
  ReplaceInputs replace_inputs;  // specs and settings that replace the case's
};

Injection InjectionOf(Fault fault);
void Inject(const Injection& injection, RunOptions& options);

// One function for each seam. It leaves the seam unchanged if the fault belongs
// to another seam.
void InjectIntoCollectives(Fault fault, exec::Seams& seams);
void InjectIntoSlices(Fault fault, exec::Seams& seams);
void InjectIntoArithmetic(Fault fault, exec::Seams& seams);
void InjectIntoCaches(Fault fault, exec::Seams& seams);
void InjectIntoPages(Fault fault, exec::Seams& seams);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_FAULTS_INJECTION_H_
