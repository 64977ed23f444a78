#include "source/stage_code.h"

#include <array>

namespace shardc {

std::span<const Code* const> StageCodes() {
  static constexpr std::array kCodes = {
      &code::kStageAxisInSpec,        &code::kLayerWithoutStage,
      &code::kParameterOutsideStages, &code::kStackedVirtual,
      &code::kTiedOverStages,         &code::kMicrobatchesIndivisible,
      &code::kScheduleRefuses,        &code::kScheduleUnsafe,
  };
  return kCodes;
}

}  // namespace shardc
