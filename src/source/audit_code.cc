#include "source/audit_code.h"

#include <array>

namespace shardc {

std::span<const Code* const> AuditCodes() {
  static constexpr std::array kCodes = {
      &code::kActivationGathered,   &code::kGatheredThenSliced,
      &code::kWeightGatheredTwice,  &code::kWeightHoisted,
      &code::kGradientNotScattered, &code::kOutputGathered,
      &code::kSentInWiderDtype,     &code::kManySmallCollectives,
      &code::kAxisUnusedInProgram,  &code::kHostTransfer,
      &code::kOverAuditBudget,      &code::kTrafficGrew,
      &code::kWeightResharded,      &code::kLookupOfBatch,
      &code::kOverStepBudget,
  };
  return kCodes;
}

}  // namespace shardc
