// Makes doctest's checks work outside of its test cases: the first failed check
// is printed, and the process aborts.
#ifndef SHARDC_TESTS_FUZZ_CHECKS_H_
#define SHARDC_TESTS_FUZZ_CHECKS_H_

namespace shardc::fuzz {

void ArmChecks();

}  // namespace shardc::fuzz

#endif  // SHARDC_TESTS_FUZZ_CHECKS_H_
