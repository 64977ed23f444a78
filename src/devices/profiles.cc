// Memory is the usable amount that a driver or a provider's page reports, not
// the rounded figure of advertisements. Link rates count one direction, and
// peak rates are those of dense products. Letters such as "N, K" before a
// record name the sources of its figures, as ProfileSources() lists them:
//
//   h100-sxm: 81559 MiB = 85,520,809,984 B, 18 links of 25 GB/s each way
#include "devices/profiles.h"

#include <algorithm>
#include <array>

namespace shardc {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;
constexpr double kGB = 1e9;
constexpr double kTera = 1e12;

constexpr auto kSources = std::to_array<ProfileSource>({
    {'N',
     "memory as NVML reports it: thundergolfer.com, NVIDIA GPU memory "
     "capacity"},
    {'K', "glennklockwood.com on A100 and B200: dense peaks, bandwidth"},
    {'S',
     "github.com/jax-ml/scaling-book, gpus.md and tpus.md: peaks, links, "
     "what leaves a host"},
    {'V', "docs.vultr.com, HGX B200"},
    {'M', "gpu.blog on MI300X; the kernel's amdgpu_xgmi for its links"},
    {'G', "docs.cloud.google.com/tpu/docs: v4, v5e, v5p, v6e, tpu7x"},
    {'J', "github.com/jax-ml/jax, jax/_src/tpu_info.py"},
    {'T', "AWS Neuron's documentation of trainium2 and trn2"},
    {'I', "inferenceengineering.tech: halves of the sparse headline figures"},
    {'L',
     "github.com/mosaicml/llm-foundry, scripts/train/benchmarking: 8 x 200 "
     "Gb/s a host"},
    {'Q', "github.com/NVIDIA/TensorRT-LLM, issue 10278: nvidia-smi of B200s"},
    {'r', "from memory of the maker's data sheet, not read again"},
});

constexpr auto kProfiles = std::to_array<DeviceProfile>({
    // N, K; host L (a p4d has 50 GB/s).
    {.name = "a100-40-sxm",
     .alias = "a100-40gb",
     .memory_bytes = 40960 * kMiB,
     .memory_rate = 1555 * kGB,
     .bf16_rate = 312 * kTera,
     .int8_rate = 624 * kTera,
     .link_rate = 25 * kGB,
     .links = 12,
     .chips_per_host = 8,
     .host_rate = 200 * kGB,
     .sources = {"N", "K", "K", "K", "L"},
     .efficiency = {.matmul = 0.80,
                    .flash_attn1 = 0.35,
                    .flash_attn2 = 0.23,
                    .runs = 51}},
    // N, K; host L.
    {.name = "a100-80-sxm",
     .alias = "a100-80gb",
     .memory_bytes = 81920 * kMiB,
     .memory_rate = 2039 * kGB,
     .bf16_rate = 312 * kTera,
     .int8_rate = 624 * kTera,
     .link_rate = 25 * kGB,
     .links = 12,
     .chips_per_host = 8,
     .host_rate = 200 * kGB,
     .sources = {"N", "K", "K", "K", "L"},
     .efficiency = {.matmul = 0.80,
                    .flash_attn1 = 0.35,
                    .flash_attn2 = 0.23,
                    .runs = 114}},
    // N, S, I; host 8 x 400 Gb/s.
    {.name = "h100-sxm",
     .alias = "h100-80gb",
     .memory_bytes = 81559 * kMiB,
     .memory_rate = 3350 * kGB,
     .bf16_rate = 989 * kTera,
     .fp8_rate = 1979 * kTera,
     .int8_rate = 1979 * kTera,
     .link_rate = 25 * kGB,
     .links = 18,
     .chips_per_host = 8,
     .host_rate = 400 * kGB,
     .sources = {"N", "S", "SI", "S", "S"},
     .efficiency = {.matmul = 0.71,
                    .matmul_fp8 = 0.57,
                    .flash_attn1 = 0.18,
                    .flash_attn2 = 0.30,
                    .cudnn = 0.68,
                    .runs = 107}},
    // N, S, I.
    {.name = "h200-sxm",
     .alias = "h200-141gb",
     .memory_bytes = 143771 * kMiB,
     .memory_rate = 4800 * kGB,
     .bf16_rate = 989 * kTera,
     .fp8_rate = 1979 * kTera,
     .int8_rate = 1979 * kTera,
     .link_rate = 25 * kGB,
     .links = 18,
     .chips_per_host = 8,
     .host_rate = 400 * kGB,
     .sources = {"N", "S", "SI", "S", "S"},
     .efficiency = {.matmul = 0.71,
                    .matmul_fp8 = 0.57,
                    .flash_attn1 = 0.18,
                    .flash_attn2 = 0.30,
                    .cudnn = 0.68,
                    .runs = 2}},
    // S, V, K; memory Q, V prints 179 GB. In NVL72 the 72 chips of a rack share
    // one switch; the hosts listed here are of other machines.
    {.name = "b200-hgx",
     .alias = "b200",
     .memory_bytes = 183359 * kMiB,
     .memory_rate = 8000 * kGB,
     .bf16_rate = 2250 * kTera,
     .fp8_rate = 4500 * kTera,
     .int8_rate = 4500 * kTera,
     .link_rate = 50 * kGB,
     .links = 18,
     .chips_per_host = 8,
     .host_rate = 400 * kGB,
     .sources = {"VQ", "K", "KS", "S", "S"},
     .efficiency = {.matmul = 0.70,
                    .matmul_fp8 = 0.52,
                    .flash_attn1 = 0.18,
                    .flash_attn2 = 0.30,
                    .cudnn = 0.68,
                    .runs = 4}},
    // M; peaks and host r.
    {.name = "mi300x",
     .memory_bytes = 192 * kGiB,
     .memory_rate = 5300 * kGB,
     .bf16_rate = 1307.4 * kTera,
     .fp8_rate = 2614.9 * kTera,
     .int8_rate = 2614.9 * kTera,
     .link_rate = 64 * kGB,
     .links = 7,
     .fabric = Fabric::kFullMesh,
     .chips_per_host = 8,
     .host_rate = 400 * kGB,
     .sources = {"M", "M", "r", "M", "r"}},
    // G, J, S; J gives 1230 GB/s of memory bandwidth.
    {.name = "tpu-v4",
     .alias = "v4",
     .memory_bytes = 32 * kGiB,
     .memory_rate = 1200 * kGB,
     .bf16_rate = 275 * kTera,
     .int8_rate = 275 * kTera,
     .link_rate = 45 * kGB,
     .links = 6,
     .fabric = Fabric::kTorus3d,
     .chips_per_host = 4,
     .host_rate = 25 * kGB,
     .sources = {"G", "GJ", "G", "S", "S"},
     .efficiency = {.matmul = 0.80, .scale = 0.012, .runs = 6}},
    // G, S; the pages give 819 GB/s and 800 GiB/s of memory bandwidth.
    {.name = "tpu-v5e",
     .alias = "v5e",
     .memory_bytes = 16 * kGiB,
     .memory_rate = 819 * kGB,
     .bf16_rate = 197 * kTera,
     .int8_rate = 393 * kTera,
     .link_rate = 50 * kGB,
     .links = 4,
     .fabric = Fabric::kTorus2d,
     .chips_per_host = 8,
     .host_rate = 25 * kGB,
     .sources = {"G", "G", "G", "S", "G"},
     .efficiency = {.matmul = 0.89, .scale = 0.012, .runs = 24}},
    // G, J, S; 95 GiB usable (G), 96 GB in S.
    {.name = "tpu-v5p",
     .alias = "v5p",
     .memory_bytes = 95 * kGiB,
     .memory_rate = 2765 * kGB,
     .bf16_rate = 459 * kTera,
     .fp8_rate = 459 * kTera,
     .int8_rate = 918 * kTera,
     .link_rate = 100 * kGB,
     .links = 6,
     .fabric = Fabric::kTorus3d,
     .chips_per_host = 4,
     .host_rate = 25 * kGB,
     .sources = {"GJ", "G", "G", "S", "G"},
     .efficiency = {.matmul = 0.79, .scale = 0.012, .runs = 16}},
    // G.
    {.name = "tpu-v6e",
     .alias = "v6e",
     .memory_bytes = 32 * kGiB,
     .memory_rate = 1638 * kGB,
     .bf16_rate = 918 * kTera,
     .fp8_rate = 918 * kTera,
     .int8_rate = 1836 * kTera,
     .link_rate = 100 * kGB,
     .links = 4,
     .fabric = Fabric::kTorus2d,
     .chips_per_host = 8,
     .host_rate = 100 * kGB,
     .sources = {"G", "G", "G", "G", "G"},
     .efficiency = {.scale = 0.012}},
    // G; jax counts two devices a chip.
    {.name = "tpu-7x",
     .alias = "tpu7x",
     .memory_bytes = 192 * kGiB,
     .memory_rate = 7380 * kGB,
     .bf16_rate = 2307 * kTera,
     .fp8_rate = 4614 * kTera,
     .link_rate = 100 * kGB,
     .links = 6,
     .fabric = Fabric::kTorus3d,
     .chips_per_host = 4,
     .host_rate = 50 * kGB,
     .devices_per_chip = 2,
     .sources = {"G", "G", "G", "G", "G"},
     .efficiency = {.scale = 0.012}},
    // T; host r. The pages give 1.28 TB/s of links without a direction: it is
    // taken as the sum of both directions.
    {.name = "trn2",
     .alias = "trainium2",
     .memory_bytes = 96 * kGiB,
     .memory_rate = 2900 * kGB,
     .bf16_rate = 667 * kTera,
     .fp8_rate = 1299 * kTera,
     .link_rate = 160 * kGB,
     .links = 4,
     .fabric = Fabric::kTorus2d,
     .chips_per_host = 16,
     .host_rate = 400 * kGB,
     .fabric_chips = 16,
     .sources = {"T", "T", "T", "T", "r"}},
});

}  // namespace

std::span<const DeviceProfile> DeviceProfiles() { return kProfiles; }

std::span<const ProfileSource> ProfileSources() { return kSources; }

std::string_view FabricName(Fabric fabric) {
  static constexpr std::array<std::string_view, 4> kNames = {
      "switch", "mesh", "torus2d", "torus3d"};
  return kNames[static_cast<size_t>(fabric)];
}

const DeviceProfile* FindDeviceProfile(std::string_view name) {
  const auto* const found =
      std::find_if(kProfiles.begin(), kProfiles.end(), [&](const auto& one) {
        return one.name == name || (!one.alias.empty() && one.alias == name);
      });
  return found == kProfiles.end() ? nullptr : found;
}

std::vector<std::string_view> DeviceNames() {
  std::vector<std::string_view> out;
  for (const DeviceProfile& profile : kProfiles) {
    out.push_back(profile.name);
    if (!profile.alias.empty()) out.push_back(profile.alias);
  }
  return out;
}

}  // namespace shardc
