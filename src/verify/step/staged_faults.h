// The faults of pipelines that a step's self-test injects: into tables of
// schedules, messages, the division of layers, and what ranks compute.
#ifndef SHARDC_VERIFY_STEP_STAGED_FAULTS_H_
#define SHARDC_VERIFY_STEP_STAGED_FAULTS_H_

#include <cstddef>

#include "verify/step/self_test.h"

namespace shardc::verify {

// The number of faults.
size_t StagedFaultCount();

// Proves a small step under each schedule, injects every fault into one of
// them, and appends the verdicts. A fault counts as detected if every proof
// that must detect it does: of the order, of the channels, of the algebra.
// `progress` counts on from the faults that `out` has.
void AddStagedSelfTest(int threads, const StepSelfTestProgress& progress,
                       StepSelfTest& out);

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STAGED_FAULTS_H_
