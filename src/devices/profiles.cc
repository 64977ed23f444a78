// Reads the built-in profiles, which are the files of profiles/. The files cite
// the sources of their figures as texts. `shardc cost --profiles` lists all
// figures. It does not repeat these long texts, but prints a letter after each
// figure. Each source gets a letter, in the order of first occurrence over all
// files. For example, this source gets the letter B if it is the second source
// of all files:
//
//   sources: {peaks: ["glennklockwood.com on A100"]}
#include "devices/profiles.h"

#include <algorithm>
#include <memory>

#include "devices/embedded.h"
#include "devices/profile_file.h"

namespace shardc {
namespace {

class KnownProfiles {
 public:
  static const KnownProfiles& Get() {
    static const KnownProfiles known;
    return known;
  }

  std::span<const DeviceProfile> profiles() const { return profiles_; }
  std::span<const ProfileSource> sources() const { return sources_; }

  FigureSources SourcesOf(const DeviceProfile& profile) const {
    for (size_t i = 0; i < profiles_.size(); ++i) {
      if (profiles_[i].name == profile.name) return letters_[i];
    }
    return {};
  }

 private:
  KnownProfiles() {
    Findings findings;
    for (const EmbeddedFile& file : EmbeddedProfiles()) {
      auto own = ParseBuiltinProfile(file, findings);
      if (own == nullptr) continue;
      FigureSources letters;
      for (size_t i = 0; i < kFigureGroups.size(); ++i) {
        for (const std::string& text : own->sources[i]) {
          letters[i] += LetterOf(text);
        }
      }
      letters_.push_back(std::move(letters));
      profiles_.push_back(own->profile);
      files_.push_back(std::move(own));
    }
  }

  char LetterOf(const std::string& text) {
    const auto known = std::find_if(
        sources_.begin(), sources_.end(),
        [&](const ProfileSource& one) { return one.text == text; });
    if (known != sources_.end()) return known->letter;
    const size_t at = sources_.size();
    const char letter = static_cast<char>(at < 26 ? 'A' + at : 'a' + (at - 26));
    sources_.push_back({letter, text});
    return letter;
  }

  // These objects own the texts of the names and aliases in profiles_, which
  // are string views.
  std::vector<std::shared_ptr<const OwnProfile>> files_;
  std::vector<DeviceProfile> profiles_;
  std::vector<FigureSources> letters_;
  std::vector<ProfileSource> sources_;
};

}  // namespace

std::span<const DeviceProfile> DeviceProfiles() {
  return KnownProfiles::Get().profiles();
}

std::span<const ProfileSource> ProfileSources() {
  return KnownProfiles::Get().sources();
}

FigureSources SourcesOf(const DeviceProfile& profile) {
  return KnownProfiles::Get().SourcesOf(profile);
}

std::string_view FabricName(Fabric fabric) {
  return kFabricNames[static_cast<size_t>(fabric)];
}

const DeviceProfile* FindDeviceProfile(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const DeviceProfile& one : DeviceProfiles()) {
    if (one.name == name || one.alias == name) return &one;
  }
  return nullptr;
}

std::vector<std::string_view> DeviceNames() {
  std::vector<std::string_view> out;
  for (const DeviceProfile& profile : DeviceProfiles()) {
    out.push_back(profile.name);
    if (!profile.alias.empty()) out.push_back(profile.alias);
  }
  return out;
}

}  // namespace shardc
