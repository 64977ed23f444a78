// Injects each fault of a list (step_faults.h) into a correct step. Records
// whether the fault changed the run, and which check detected it.
#ifndef SHARDC_TESTS_VERIFY_STEP_SELF_TEST_H_
#define SHARDC_TESTS_VERIFY_STEP_SELF_TEST_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/step/step_faults.h"

namespace shardc::verify {

struct StepFaultVerdict {
  std::string_view name, family, breaks;
  std::string_view on;    // name of the case, such as "tensor"
  std::string_view seam;  // kind of injection, such as "collective"
  // Whether a buffer or the bytes sent differ from a correct run.
  bool injected = false;
  bool caught = false;  // true: the expected check detected the fault
  std::string_view by;  // name of the check that detected the fault, or empty
  std::string at;       // name of the op that this check reports
};

struct StepSelfTest {
  std::vector<StepFaultVerdict> faults;
  int64_t sound = 0;  // number of cases that pass without faults
  // Names of cases that fail without faults.
  std::vector<std::string_view> unsound;
  int64_t Injected() const;
  int64_t Caught() const;
  // Returns true if all cases pass without faults, and all faults were injected
  // and detected.
  bool Holds() const;
};

using StepSelfTestProgress = std::function<void(size_t done, size_t all)>;
// Runs the self-test. The result does not depend on `threads`.
StepSelfTest RunStepSelfTest(const std::vector<StepFault>& faults, int threads,
                             const StepSelfTestProgress& progress = {});

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_STEP_SELF_TEST_H_
