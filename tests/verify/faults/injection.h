// What each fault of the catalogue does to a run. A fault replaces seams, the
// parts of a program that a test may replace (exec/machine/machine.h). The
// faults of attention, caches and pages are in this folder. The faults of a
// model's training and decoding steps are in verify/step.
#ifndef SHARDC_TESTS_VERIFY_FAULTS_INJECTION_H_
#define SHARDC_TESTS_VERIFY_FAULTS_INJECTION_H_

#include "exec/machine/machine.h"
#include "verify/faults/fault.h"
#include "verify/judge/run_case.h"

namespace shardc::verify {

struct Injection {
  exec::Seams seams;
  // Changes the specs and settings with which the operation is run. May be
  // empty.
  ReplaceInputs replace_inputs;
};

Injection InjectionOf(Fault fault);
void Inject(const Injection& injection, RunOptions& options);

// Each function sets the seams (replaceable steps) of one part of a run, such
// as its collectives. If `fault` is a fault of this part, one of these seams
// injects it. All other seams behave correctly.
void InjectIntoCollectives(Fault fault, exec::Seams& seams);
void InjectIntoSlices(Fault fault, exec::Seams& seams);
void InjectIntoArithmetic(Fault fault, exec::Seams& seams);
void InjectIntoCaches(Fault fault, exec::Seams& seams);
void InjectIntoPages(Fault fault, exec::Seams& seams);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_FAULTS_INJECTION_H_
