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
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/serving.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/source.h"
#include "yaml/read.h"

namespace shardc {

// A figure that is measured at several sizes, such as the rate of a collective
// at several message sizes in bytes. Between two measured points the figure is
// interpolated linearly.

struct CurvePoint {
  double at = 0, value = 0;
};
// Points in ascending order of `at`. An empty curve means that the figure does
// not depend on a size.
using Curve = std::vector<CurvePoint>;

// Returns the value at `at`, interpolated linearly between the two points
// around it. Before the first point and after the last, returns the value of
// that point. The curve must not be empty.
double ValueAt(const Curve& curve, double at);
// Returns the seconds of one collective in which a device sends `bytes`.
// `rates` is a curve of bytes per second, and must not be empty. In
// measurements, a larger message may take less time than a smaller one, because
// the network uses another protocol for it. The smaller message could be padded
// to the size of the larger one. The function therefore returns the shortest
// time of any message of at least `bytes`.
double SecondsAt(const Curve& rates, double bytes);
// Returns whether no point has a smaller value than the point before it.
bool Ascends(const Curve& curve);

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
  // The fraction as a function of the smallest dimension of a matmul on
  // a device. An empty curve means that the fraction is constant. If there is a
  // curve, `matmul` and `matmul_fp8` are the fractions of the largest matmuls.
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
  // The fractions of their expected rates at which the parts run that only some
  // steps have: experts and their router, the all-to-alls of tokens, the start
  // of kernels by the host, and the messages between the stages of a pipeline.
  // Devices whose runs are faster than published ones exceed 1.
  double experts = 1, dispatch = 1, expert_host = 1, messages = 1;
  // Each doubling of the number of hosts lengthens the step by this fraction of
  // its time.
  double scale = 0.007;
  // Measured rates of collectives within a host or a torus, in the order of
  // kCurveCollectives. A curve maps the bytes that a device sends in one
  // collective to the bytes per second at which it sends them.
  std::array<Curve, kCurveCollectives.size()> rate_curves = {};
  // The number of published runs to which the figures were fitted.
  int runs = 0;
  // The number of steps to which `shardc calibrate` fitted the figures, how
  // many of them are of pipelines, and the largest error of their expected
  // times, as a fraction.
  int measured = 0, measured_pipelines = 0;
  double measured_error = 0;
};

// The groups of figures whose sources are listed separately. kFigureGroups has
// their names in profile files.
enum class FigureGroup : uint8_t {
  kMemory,
  kMemoryRate,
  kPeaks,
  kLinks,
  kHost,
  kHostMemory,
  kEfficiency
};
inline constexpr std::array<std::string_view, 7> kFigureGroups = {
    "memory.bytes", "memory.bandwidth", "peaks",     "links.near",
    "links.far",    "links.host",       "efficiency"};

// For each group of figures, the letters of its sources in ProfileSources():
// "SN" if it has the two sources S and N.
using FigureSources = std::array<std::string, kFigureGroups.size()>;
struct ProfileSource {
  char letter;
  std::string text;
};

// The figures of an accelerator: bytes, bytes per second, and operations per
// second of dense matmuls.
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
  // The bytes per second in one direction between a device and the memory of
  // its host: the lower of the rate of the link and of the device's part of the
  // rate of the host's memory. Absent if the profile does not state it.
  std::optional<double> host_memory_rate = {};
  // The number of devices that a framework counts on a chip: JAX counts 2 on a
  // TPU7x. Each device has an equal part of the chip's memory and rates.
  int64_t devices_per_chip = 1;
  // The number of chips that the fast links connect, if the profile states it.
  // Otherwise it is 0, and they connect all chips of a slice of a torus, and
  // the chips of a host in other fabrics.
  int64_t fabric_chips = 0;
  Efficiency efficiency = {};
  // The rates of the operators of serving; nullopt if they were not measured.
  std::optional<ServingRates> serving = {};

  constexpr int64_t DeviceMemory() const {
    return memory_bytes / devices_per_chip;
  }
};

// Returns the built-in profiles, sorted by name. The file of each is parsed
// when the profile is first needed. Its name is that of the profile.
std::span<const DeviceProfile> DeviceProfiles();
// Returns the sources of the built-in profile that has this profile's name.
// They are empty if no built-in profile has this name.
FigureSources SourcesOf(const DeviceProfile& profile);
// Returns all sources of the built-in profiles, in the order of their letters.
std::span<const ProfileSource> ProfileSources();
inline constexpr std::array<std::string_view, 4> kFabricNames = {
    "switch", "mesh", "torus2d", "torus3d"};
std::string_view FabricName(Fabric fabric);
// Returns the profile with this name or alias, or that of the device for which
// drivers and frameworks report this name, such as `NVIDIA H100 80GB HBM3` of
// nvidia-smi. Returns null if there is none.
const DeviceProfile* FindDeviceProfile(std::string_view name);
// Returns all names and aliases, for suggestions in messages.
std::vector<std::string_view> DeviceNames();

}  // namespace shardc

namespace shardc::keys {

extern const KeyTable kProfile;
extern const KeyTable kPeaks;
extern const KeyTable kProfileMemory;
extern const KeyTable kEfficiency;
extern const KeyTable kMatmul;
extern const KeyTable kAttention;
extern const KeyTable kExperts;
extern const KeyTable kLinks;
extern const KeyTable kRateCurves;
extern const KeyTable kLink;
extern const KeyTable kHostMemory;
extern const KeyTable kChips;
extern const KeyTable kSources;

}  // namespace shardc::keys

namespace shardc {

// Returns all files of profiles/, sorted by name. The build generates the
// table.
std::span<const EmbeddedFile> EmbeddedProfiles();

// Reads a device profile: a built-in one, or a user's file. A user's file may
// name a built-in profile as its base and give only the figures that differ,
// such as the memory bandwidth or measured efficiencies.

// A profile that was read from a file. The members `text` and `alias` own the
// texts to which the profile's name and alias refer.
struct OwnProfile {
  std::string text, alias;
  // The names that drivers and frameworks report for the device.
  std::vector<std::string> device_names;
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

#endif  // SHARDC_DEVICES_PROFILES_H_
