// The faults that a step's self-test injects: what each breaks, where, and who
// must notice.
#ifndef SHARDC_VERIFY_STEP_STEP_FAULTS_H_
#define SHARDC_VERIFY_STEP_STEP_FAULTS_H_

#include <string_view>
#include <vector>

#include "verify/step/fault_kit.h"
#include "verify/step/prove.h"
#include "verify/step/sound_cases.h"

namespace shardc::verify {

// Through what a fault is injected.
enum class FaultSeam : uint8_t {
  kCollective,  // a collective does something else
  kOp,          // an op on the devices does
  kProgram,     // the program that runs is not the declared one
  kDeclared,    // the declared one is wrong itself
  kInput,       // devices are given something else
};
std::string_view FaultSeamName(FaultSeam seam);  // "collective"

struct StepFault {
  std::string_view name;    // "no-row-ar"
  std::string_view family;  // "linearity"
  std::string_view breaks;  // what is wrong, in words
  SoundStep on = SoundStep::kTensor;
  FaultSeam seam = FaultSeam::kCollective;
  StepCheck by = StepCheck::kConstraints;  // that must notice
  Inject inject;
};

// The same on every call.
std::vector<StepFault> StepFaults();

}  // namespace shardc::verify

#endif  // SHARDC_VERIFY_STEP_STEP_FAULTS_H_
