// The score of verification as text: which injected faults, wrong outputs and
// known answers it detects. docs/detected-faults.md publishes it.
#ifndef SHARDC_TESTS_VERIFY_SCORE_H_
#define SHARDC_TESTS_VERIFY_SCORE_H_

#include <string>

#include "verify/answers/known_answers.h"
#include "verify/faults/fault_injection.h"
#include "verify/sharpness.h"
#include "verify/step/self_test.h"

namespace shardc::verify {

// Returns a line per injected fault, with the check that detected the fault.
std::string SelfTestText(const SelfTest& result);
// Returns the result of a test that the tolerances are neither too narrow nor
// too wide. It lists the correct outputs that were rejected and the wrong
// outputs that were accepted. The last line has the number of wrong outputs
// that were compared, and how many of them were rejected.
std::string SharpnessText(const Sharpness& result);
std::string KnownAnswersText(const KnownAnswers& result);
// Returns a line per fault of a step or a pipeline: its name, the check that
// detected it and where, and what it breaks.
std::string StepSelfTestText(const StepSelfTest& result);

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_SCORE_H_
