// The faults that a step's self-test injects: the mistake, the place, and the
// check that must detect it.
#ifndef SHARDC_VERIFY_STEP_STEP_FAULTS_H_
#define SHARDC_VERIFY_STEP_STEP_FAULTS_H_

#include <string_view>
#include <vector>

#include "verify/step/fault_kit.h"
#include "verify/step/prove.h"
#include "verify/step/sound_cases.h"

namespace shardc::verify {

// Where a fault is injected.
enum class FaultSeam : uint8_t {
  kCollective,  // into a collective
  kOp,          // into an op on the devices
  kProgram,     // into the program that runs, not into the declared one
  kDeclared,    // into the declared program
  kInput,       // into the devices' inputs
};
std::string_view FaultSeamName(FaultSeam seam);  // "collective"

struct StepFault {
  std::string_view name;    // "no-row-ar"
  std::string_view family;  // "linearity"
  std::string_view breaks;  // the mistake, in words
  SoundStep on = SoundStep::kTensor;
  FaultSeam seam = FaultSeam::kCollective;
  StepCheck by = StepCheck::kConstraints;  // the check that must detect it
  FaultAction inject;
};

// Returns the table of all faults, the same on every call.
std::vector<StepFault> StepFaults();

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STEP_FAULTS_H_
