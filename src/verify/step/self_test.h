// Injects every fault of the table into a step that is right, and asks whether
// it changed anything and who noticed.
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
  bool injected = false;  // a buffer or the ledger is not as without it
  bool caught = false;    // by the check that must notice
  std::string_view by;    // that check; else what noticed first, if anything
  std::string at;         // the op that the check names
};

struct StepSelfTest {
  std::vector<StepFaultVerdict> faults;
  int64_t sound = 0;                      // cases that hold without faults
  std::vector<std::string_view> unsound;  // and those that do not
  int64_t Injected() const;
  int64_t Caught() const;
  // All cases are right; all faults were injected and caught.
  bool Holds() const;
};

using StepSelfTestProgress = std::function<void(size_t done, size_t all)>;
// The same whatever `threads`.
StepSelfTest RunStepSelfTest(const std::vector<StepFault>& faults, int threads,
                             const StepSelfTestProgress& progress = {});

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_SELF_TEST_H_
