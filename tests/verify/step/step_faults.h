// The faults that the self-test of steps injects. Each has a mistake, the place
// where it is injected, and the check that must detect it.
#ifndef SHARDC_TESTS_VERIFY_STEP_STEP_FAULTS_H_
#define SHARDC_TESTS_VERIFY_STEP_STEP_FAULTS_H_

#include <string_view>
#include <vector>

#include "verify/step/fault_kit.h"
#include "verify/step/prove.h"
#include "verify/step/sound_cases.h"

namespace shardc::verify {

// The part of a run into which a fault is injected.
enum class FaultSeam : uint8_t {
  // The fault changes a collective or its results.
  kCollective,
  // The fault changes an op on the devices.
  kOp,
  // The fault changes the program that runs. Checks read the correct program.
  kProgram,
  // The fault changes the program that runs. Checks read the changed program
  // too, so a static check can detect the fault.
  kDeclared,
  // The fault changes the devices' inputs.
  kInput,
};
std::string_view FaultSeamName(FaultSeam seam);  // "collective"

struct StepFault {
  std::string_view name;    // such as "no-row-ar"
  std::string_view family;  // such as "linearity"
  std::string_view breaks;  // the mistake, in words
  SoundStep on = SoundStep::kTensor;
  FaultSeam seam = FaultSeam::kCollective;
  // The check that must detect the fault.
  StepCheck by = StepCheck::kConstraints;
  FaultAction inject;
};

// Returns all faults. The order is the same on every call.
std::vector<StepFault> StepFaults();

}  // namespace shardc::verify

#endif  // SHARDC_TESTS_VERIFY_STEP_STEP_FAULTS_H_
