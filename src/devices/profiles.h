// Accelerators by name: what one chip holds, how fast it computes and moves
// bytes, and how chips are joined. Figures only, each with its source beside
// it in the table; what they mean for a plan is for those above.
#ifndef SHARDC_DEVICES_PROFILES_H_
#define SHARDC_DEVICES_PROFILES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace shardc {

// How the chips that share the fast network are joined.
enum class Fabric : uint8_t { kSwitch, kFullMesh, kTorus2d, kTorus3d };

// Where each figure is from, as letters of ProfileSources().
struct FigureSources {
  std::string_view memory, memory_rate, peaks, links, host;
};
struct ProfileSource {
  char letter;
  std::string_view text;
};

// Bytes, bytes per second, and operations per second of dense products.
struct DeviceProfile {
  std::string_view name;
  // What people call it too; empty: nothing more.
  std::string_view alias = {};
  int64_t memory_bytes = 0;
  double memory_rate = 0;
  double bf16_rate = 0;
  // Nothing: no unit for it.
  std::optional<double> fp8_rate = {}, int8_rate = {};
  double link_rate = 0;  // of one link, one way
  int64_t links = 1;
  Fabric fabric = Fabric::kSwitch;
  int64_t chips_per_host = 1;
  double host_rate = 0;  // what leaves a host
  // What a framework counts as devices; each has its part of all the above.
  int64_t devices_per_chip = 1;
  // Chips that the links join, where that is no more than a host; 0: a slice
  // of a torus, a host elsewhere.
  int64_t fabric_chips = 0;
  FigureSources sources = {};

  constexpr int64_t DeviceMemory() const {
    return memory_bytes / devices_per_chip;
  }
};

std::span<const DeviceProfile> DeviceProfiles();
std::span<const ProfileSource> ProfileSources();
std::string_view FabricName(Fabric fabric);  // "switch", "torus2d"
// By name or alias; null for one that nobody knows.
const DeviceProfile* FindDeviceProfile(std::string_view name);
// Every name and alias, for suggestions.
std::vector<std::string_view> DeviceNames();

}  // namespace shardc

#endif  // SHARDC_DEVICES_PROFILES_H_
