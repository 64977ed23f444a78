// Prints the candidate meshes, the chosen one with a star; if none fits, prints
// how many devices would be enough:
//
//   * dp:8,fsdp:8               18.02 GiB per device, 711 ns a token
//     dp:16,fsdp:4              32.98 GiB per device, 711 ns a token
#include "cli/picked_mesh.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "cli/output.h"
#include "source/wording.h"
#include "suggest/parameter_groups.h"

namespace shardc::cli {
namespace {

constexpr size_t kShownMeshes = 5;
constexpr double kUsable = 0.9;

// "711 ns", "15.9 us"
std::string TimeText(double nanoseconds) {
  const char* unit = "ns";
  double value = nanoseconds;
  for (const char* larger : {"us", "ms", "s"}) {
    if (value < 1000) break;
    value /= 1000;
    unit = larger;
  }
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.3g %s", value, unit);
  return out.data();
}

std::optional<suggest::MeshRequest> ReadRequest(const MeshFlags& flags,
                                                const std::string& devices,
                                                Findings& findings) {
  suggest::MeshRequest out;
  const auto count =
      ParseInteger("--devices", devices.empty() ? "8" : devices, 1, findings);
  const auto memory = ParseBytes("--memory", flags.memory, findings);
  const auto sequence = ParseInteger("--seq", flags.sequence, 1, findings);
  const auto per_host = ParseInteger("--per-host", flags.per_host, 1, findings);
  if (!flags.batch.empty()) {
    out.batch = ParseInteger("--batch", flags.batch, 1, findings);
    if (!out.batch) return std::nullopt;
  }
  if (!count || !memory || !sequence || !per_host) return std::nullopt;
  constexpr int64_t kMost = 1 << 20;
  if (*count > kMost || *sequence > kMost * kMost / 1024 ||
      out.batch.value_or(1) > kMost) {
    findings.Add(code::kUsage, {},
                 "the number of devices or sequences is too large",
                 "use at most 1,048,576 devices and sequences");
    return std::nullopt;
  }
  out.devices = *count;
  out.memory = *memory;
  out.sequence = *sequence;
  out.per_host = *per_host;
  return out;
}

std::string MeshesText(const std::vector<suggest::MeshOption>& options,
                       const suggest::MeshRequest& request) {
  std::string out =
      "meshes      of " + CountText(request.devices) + " devices of " +
      BytesText(request.memory) + ", trained with " +
      (request.batch ? CountText(*request.batch) + " sequences"
                     : "a sequence for each data shard") +
      " of " + CountText(request.sequence) + " tokens (--batch, --seq)\n";
  for (size_t i = 0; i < options.size() && i < kShownMeshes; ++i) {
    const suggest::MeshOption& option = options[i];
    std::string words = MeshWords(option.mesh);
    words.resize(std::max<size_t>(words.size(), 24), ' ');
    out +=
        std::string(i == 0 && option.fits ? "          * " : "            ") +
        words + "  " + BytesText(static_cast<int64_t>(option.bytes)) +
        " per device, " + TimeText(option.nanoseconds) + " a token" +
        (option.fits ? "" : ", exceeds the memory") + "\n";
  }
  return out;
}

void SayNoneFits(const std::vector<suggest::MeshOption>& options,
                 const suggest::MeshRequest& request, Findings& findings) {
  if (options.empty()) {
    findings.Add(code::kInexpressible, {},
                 "no mesh of " + CountText(request.devices) +
                     " devices divides the sizes of the model",
                 "give another number of devices, or a mesh");
    return;
  }
  const suggest::MeshOption& least = options.front();
  const double needed =
      least.bytes /
      (kUsable * static_cast<double>(std::max<int64_t>(1, request.memory)));
  int64_t devices = request.devices;
  while (static_cast<double>(devices) <
             needed * static_cast<double>(request.devices) &&
         devices < (int64_t{1} << 40)) {
    devices *= 2;
  }
  findings.Add(code::kInexpressible, {},
               "no mesh of " + CountText(request.devices) + " devices of " +
                   BytesText(request.memory) +
                   " holds the model in training: the smallest need is " +
                   BytesText(static_cast<int64_t>(least.bytes)) +
                   " per device, on " + MeshWords(least.mesh),
               "about " + CountText(devices) +
                   " such devices would be enough; or give a mesh");
}

}  // namespace

Options MeshChoice(MeshFlags& flags) {
  return Under(
      "Without a mesh",
      {{.name = "--memory",
        .to = &flags.memory,
        .value = "SIZE",
        .help = "memory of a device, such as 80GiB; chooses the fastest mesh "
                "of --devices that holds the model in training"},
       {.name = "--batch",
        .to = &flags.batch,
        .value = "N",
        .help = "sequences per step (default: one per data shard)"},
       {.name = "--seq",
        .to = &flags.sequence,
        .value = "N",
        .help = "tokens per sequence (default: 8192)"},
       {.name = "--per-host",
        .to = &flags.per_host,
        .value = "N",
        .help = "devices per host, which fast links join (default: 8)"}});
}

std::string MeshWords(const Mesh& mesh) {
  std::string out;
  for (const MeshAxis& axis : mesh.axes) {
    out +=
        (out.empty() ? "" : ",") + axis.name + ":" + std::to_string(axis.size);
  }
  return out;
}

std::optional<PickedMesh> PickMesh(const MeshFlags& flags,
                                   const std::string& devices,
                                   const Manifest& manifest,
                                   const std::optional<ModelConfig>& model,
                                   const suggest::Preferences& preferences,
                                   const Common& common, Findings& findings) {
  const auto request = ReadRequest(flags, devices, findings);
  if (!request) return std::nullopt;
  const suggest::Tree tree = suggest::ParameterGroupsOf(manifest);
  const auto options = suggest::MeshesFor(tree, model ? &*model : nullptr,
                                          *request, preferences);
  PrintMessage(common, MeshesText(options, *request));
  if (options.empty() || !options.front().fits) {
    SayNoneFits(options, *request, findings);
    return PickedMesh{{}, true};
  }
  return PickedMesh{options.front().mesh, false};
}

}  // namespace shardc::cli
