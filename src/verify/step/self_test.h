// Injects every fault of the table into a correct step, and records whether it
// changed the run and which check detected it.
#ifndef SHARDC_VERIFY_STEP_SELF_TEST_H_
#define SHARDC_VERIFY_STEP_SELF_TEST_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "verify/step/step_faults.h"

namespace shardc::verify {

struct StepFaultVerdict {
  std::string_view name, family, breaks;
  std::string_view on;    // the case: "tensor"
  std::string_view seam;  // "collective"
  bool injected = false;  // a buffer or the ledger differs from a correct run
  bool caught = false;    // the expected check detected it
  std::string_view by;    // the check that detected it, or empty
  std::string at;         // the op that the check `by` names
};

struct StepSelfTest {
  std::vector<StepFaultVerdict> faults;
  int64_t sound = 0;                      // cases that pass without faults
  std::vector<std::string_view> unsound;  // cases that fail without faults
  int64_t Injected() const;
  int64_t Caught() const;
  // Returns whether all cases pass without faults, and all faults were injected
  // and detected.
  bool Holds() const;
};

using StepSelfTestProgress = std::function<void(size_t done, size_t all)>;
// Runs the self-test. The result does not depend on `threads`.
StepSelfTest RunStepSelfTest(const std::vector<StepFault>& faults, int threads,
                             const StepSelfTestProgress& progress = {});

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_SELF_TEST_H_
