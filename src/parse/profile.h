// Reads a device profile: an accelerator that differs from one that the program
// knows by name, such as one with less power or measured efficiencies.
#ifndef SHARDC_PARSE_PROFILE_H_
#define SHARDC_PARSE_PROFILE_H_

#include <memory>

#include "devices/profiles.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// Figures that the file does not give are those of its `base`. Returns null
// after a finding.
std::shared_ptr<const OwnProfile> ParseProfile(SourceRef source,
                                               Findings& findings);

}  // namespace shardc

#endif  // SHARDC_PARSE_PROFILE_H_
