// Reads a device profile: a built-in one, or a user's file. A user's file may
// name a built-in profile as its base and give only the figures that differ,
// such as the memory bandwidth or measured efficiencies.
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

// A profile that was read from a file. The members `text` and `alias` own the
// texts to which the profile's name and alias refer.
struct OwnProfile {
  std::string text, alias;
  DeviceProfile profile;  // profile.name is a view of `text`
  // The texts that the file cites as the sources of its figures, by
  // FigureGroup.
  std::array<std::vector<std::string>, kFigureGroups.size()> sources;
};

// Reads a user's profile. Figures that are missing in the file are copied from
// its `base`. Only `runs`, the number of runs to which the figures were fitted,
// is not copied and is then 0. Without a base, missing figures get their
// defaults, and a missing figure without a default is an error. Returns null
// after an error.
std::shared_ptr<const OwnProfile> ParseProfile(SourceRef source,
                                               Findings& findings);
// Reads a file of profiles/, which has no base. Returns null after an error.
std::shared_ptr<const OwnProfile> ParseBuiltinProfile(const EmbeddedFile& file,
                                                      Findings& findings);

}  // namespace shardc

#endif  // SHARDC_DEVICES_PROFILE_FILE_H_
