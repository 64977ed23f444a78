#include "source/config_codes.h"

#include <array>

namespace shardc {

std::span<const Code* const> ConfigCodes() {
  static constexpr std::array kCodes = {
      &code::kConfigRefused,
      &code::kConfigSilent,
      &code::kConfigNotUnderstood,
      &code::kConfigUndetermined,
  };
  return kCodes;
}

}  // namespace shardc
