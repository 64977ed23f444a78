// What each fault of the catalogue does to a run: it replaces seams, the steps
// of a program that a test may replace (exec/machine/seams.h). The faults of
// attention, caches and pages are in this folder, the faults of steps in
// verify/step.
#ifndef SHARDC_VERIFY_FAULTS_INJECTION_H_
#define SHARDC_VERIFY_FAULTS_INJECTION_H_

#include "exec/machine/seams.h"
#include "verify/faults/fault.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {

struct Injection {
  exec::Seams seams;
  ReplaceInputs replace_inputs;  // changes the case's specs and settings
};

Injection InjectionOf(Fault fault);
void Inject(const Injection& injection, RunOptions& options);

// Each function replaces some seams. If `fault` belongs to these seams, the
// replacements inject it. Otherwise the replacements are correct.
void InjectIntoCollectives(Fault fault, exec::Seams& seams);
void InjectIntoSlices(Fault fault, exec::Seams& seams);
void InjectIntoArithmetic(Fault fault, exec::Seams& seams);
void InjectIntoCaches(Fault fault, exec::Seams& seams);
void InjectIntoPages(Fault fault, exec::Seams& seams);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_FAULTS_INJECTION_H_
