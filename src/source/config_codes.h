// The codes of diagnostics about configurations of other systems, family 7. A
// file of the folder systems/ states what a system refuses.
#ifndef SHARDC_SOURCE_CONFIG_CODES_H_
#define SHARDC_SOURCE_CONFIG_CODES_H_

#include <span>

#include "source/finding.h"

namespace shardc {

namespace code {
inline constexpr Code kConfigRefused{701, "config-refused", Level::kError,
                                     "the system refuses this configuration"};
inline constexpr Code kConfigSilent{
    702, "config-silent", Level::kWarning,
    "the system accepts this configuration and does something else"};
inline constexpr Code kConfigNotUnderstood{
    703, "config-not-understood", Level::kError,
    "a key of a configuration is not known"};
inline constexpr Code kConfigUndetermined{
    704, "config-undetermined", Level::kError,
    "a value that decides what a rank holds is not in the configuration"};
}  // namespace code

// Returns every code of family 7, ascending.
std::span<const Code* const> ConfigCodes();

}  // namespace shardc

#endif  // SHARDC_SOURCE_CONFIG_CODES_H_
