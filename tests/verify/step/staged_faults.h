// The faults of pipelines that the self-test of steps injects: into the tables
// of schedules, messages, the division of layers, and the results of ranks.
#ifndef SHARDC_TESTS_VERIFY_STEP_STAGED_FAULTS_H_
#define SHARDC_TESTS_VERIFY_STEP_STAGED_FAULTS_H_

#include <cstddef>

#include "verify/step/self_test.h"

namespace shardc::verify {

size_t StagedFaultCount();

// Proves a small step with each schedule, injects every fault into one of these
// steps, and appends the verdicts to `out`. Three proofs run: of the order, of
// the channels, and of the values. A fault counts as detected if every proof
// that must detect it fails. After each fault, `progress` is called with the
// numbers of finished faults and of all faults. Both numbers include the
// faults that `out` had before.
void AddStagedSelfTest(int threads, const StepSelfTestProgress& progress,
                       StepSelfTest& out);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_STEP_STAGED_FAULTS_H_
