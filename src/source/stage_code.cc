#include "source/stage_code.h"

#include <array>

namespace shardc {

std::span<const Code* const> StageCodes() {
  static constexpr std::array<const Code*, 2> kCodes = {&code::kScheduleRefuses,
                                                        &code::kScheduleUnsafe};
  return kCodes;
}

}  // namespace shardc
