// Directory: devices. The accelerators that the program knows by name, with
// their memory, speed and bandwidth.
// Its files include headers of these directories: source, yaml.
//
// A profile has the memory of a chip, its rates of computing and of moving
// bytes, and how chips are connected. The figures and their sources are in the
// files of profiles/, which are embedded in the library; cost and lint
// interpret them.
#ifndef SHARDC_DEVICES_PROFILES_H_
#define SHARDC_DEVICES_PROFILES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/curve.h"

namespace shardc {

// The topology of the chips that share the fast network.
enum class Fabric : uint8_t { kSwitch, kFullMesh, kTorus2d, kTorus3d };

// The collectives for which a profile may have measured rates.
inline constexpr std::array<std::string_view, 5> kCurveCollectives = {
    "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "ppermute"};

// The fractions of its peak rates that an accelerator reaches in complete
// training steps. Figures without a stated unit are fractions in (0, 1].
struct Efficiency {
  double matmul = 0.75;      // fraction of bf16_rate
  double matmul_fp8 = 0.5;   // fraction of fp8_rate
  double matmul_fp4 = 0.36;  // fraction of fp4_rate
  // The fraction as a function of the smallest dimension of a matrix product on
  // a device. An empty curve means that the fraction is constant. If there is a
  // curve, `matmul` and `matmul_fp8` are the fractions of the largest products.
  Curve matmul_curve = {}, matmul_fp8_curve = {};
  // The fraction of bf16_rate that attention reaches, forward and backward pass
  // together. A kernel (flash_attn1, flash_attn2, cudnn) without a measured
  // figure is assumed to reach `attention`.
  double attention = 0.4;
  std::optional<double> flash_attn1 = {}, flash_attn2 = {}, cudnn = {};
  // Attention's fraction is multiplied by this factor if a head has at most 64
  // dimensions.
  double narrow_head = 0.8;
  // The fraction of memory_rate that norms, activations and rotary embeddings
  // reach.
  double memory_ops = 0.7;
  // The fractions of their peak rates that links reach: `near` inside a host or
  // a torus, and `far` between hosts or slices.
  double near = 0.8;
  double far = 0.85;
  // Seconds that each collective takes in addition to the transfer of its
  // bytes.
  double latency_s = 15e-6;
  // The fraction of their expected rates at which the parts run that only
  // models with experts have: the experts, the router, the all-to-alls of
  // tokens, and the host. Devices whose runs are faster than published ones
  // exceed 1.
  double experts = 1;
  // Each doubling of the number of hosts lengthens the step by this fraction of
  // its time.
  double scale = 0.007;
  // Measured rates of collectives within a host or a torus, in the order of
  // kCurveCollectives. A curve maps the bytes that a device sends in one
  // collective to the bytes per second at which it sends them.
  std::array<Curve, kCurveCollectives.size()> rate_curves = {};
  // The number of published runs to which the figures were fitted.
  int runs = 0;
};

// The groups of figures whose sources are listed separately. kFigureGroups has
// their names in profile files.
enum class FigureGroup : uint8_t {
  kMemory,
  kMemoryRate,
  kPeaks,
  kLinks,
  kHost,
  kEfficiency
};
inline constexpr std::array<std::string_view, 6> kFigureGroups = {
    "memory.bytes", "memory.bandwidth", "peaks",
    "links.near",   "links.far",        "efficiency"};

// For each group of figures, the letters of its sources in ProfileSources():
// "SN" if it has the two sources S and N.
using FigureSources = std::array<std::string, kFigureGroups.size()>;
struct ProfileSource {
  char letter;
  std::string text;
};

// The figures of an accelerator: bytes, bytes per second, and operations per
// second of dense matrix products.
struct DeviceProfile {
  std::string_view name;
  // Another common name of the accelerator; empty if it has no other name.
  std::string_view alias = {};
  int64_t memory_bytes = 0;
  double memory_rate = 0;
  double bf16_rate = 0;
  // Operations per second in fp8, in int8 and in nvfp4. Absent if the profile
  // has no rate for the dtype.
  std::optional<double> fp8_rate = {}, int8_rate = {}, fp4_rate = {};
  double link_rate = 0;  // bytes per second of one link in one direction
  int64_t links = 1;
  Fabric fabric = Fabric::kSwitch;
  int64_t chips_per_host = 1;
  double host_rate = 0;  // bytes per second of one host's network connection
  // The number of devices that a framework counts on a chip: JAX counts 2 on a
  // TPU7x. Each device has an equal part of the chip's memory and rates.
  int64_t devices_per_chip = 1;
  // The number of chips that the fast links connect, if the profile states it.
  // Otherwise it is 0, and they connect all chips of a slice of a torus, and
  // the chips of a host in other fabrics.
  int64_t fabric_chips = 0;
  Efficiency efficiency = {};

  constexpr int64_t DeviceMemory() const {
    return memory_bytes / devices_per_chip;
  }
};

// Returns the built-in profiles, sorted by name. Their files are parsed at the
// first call.
std::span<const DeviceProfile> DeviceProfiles();
// Returns the sources of the built-in profile that has this profile's name.
// They are empty if no built-in profile has this name.
FigureSources SourcesOf(const DeviceProfile& profile);
// Returns all sources of the built-in profiles, in the order of their letters.
std::span<const ProfileSource> ProfileSources();
inline constexpr std::array<std::string_view, 4> kFabricNames = {
    "switch", "mesh", "torus2d", "torus3d"};
std::string_view FabricName(Fabric fabric);
// Returns the profile with this name or alias, or null if there is none.
const DeviceProfile* FindDeviceProfile(std::string_view name);
// Returns all names and aliases, for suggestions in messages.
std::vector<std::string_view> DeviceNames();

}  // namespace shardc

#endif  // SHARDC_DEVICES_PROFILES_H_
