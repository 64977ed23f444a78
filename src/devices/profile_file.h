// Reads a device profile: a built-in one, or a file of a user's own, which may
// name the built-in one that it differs from, such as in power or in measured
// efficiencies.
#ifndef SHARDC_DEVICES_PROFILE_FILE_H_
#define SHARDC_DEVICES_PROFILE_FILE_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "devices/profiles.h"
#include "source/embedded_file.h"
#include "source/finding.h"
#include "source/source.h"

namespace shardc {

// A profile that was read from a file, and the texts that it refers to.
struct OwnProfile {
  std::string text, alias;
  DeviceProfile profile;  // its name is `text`
  // By FigureGroup: where the figures are from.
  std::array<std::vector<std::string>, kFigureGroups.size()> sources;
};

// Figures that the file does not give are those of its `base`; without a base,
// the file gives those that have no default. Returns null after a finding.
std::shared_ptr<const OwnProfile> ParseProfile(SourceRef source,
                                               Findings& findings);
// Reads a file of profiles/, which has no base.
std::shared_ptr<const OwnProfile> ParseBuiltinProfile(const EmbeddedFile& file,
                                                      Findings& findings);

}  // namespace shardc

#endif  // SHARDC_DEVICES_PROFILE_FILE_H_
