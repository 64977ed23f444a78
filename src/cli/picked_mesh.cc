// Chooses a mesh for a number of devices. For each candidate mesh, rules are
// suggested, and the mesh is evaluated with these rules as in `fit` and `cost`.
// The best candidates are printed, the chosen one with a star. If some
// candidates are legal but none fits in memory, a finding estimates how many
// devices would be enough:
//
//   * fsdp:64                   18.1 GiB per device, 1.34 s a step
//     dp:2,fsdp:32              19.9 GiB per device, 1.34 s a step
#include "cli/picked_mesh.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "cost/fit.h"
#include "emit/costs/figures.h"
#include "emit/not_known.h"
#include "emit/plans/rules_file.h"
#include "parse/rules.h"
#include "source/wording.h"
#include "suggest/dims.h"
#include "suggest/parameter_groups.h"
#include "suggest/suggest.h"
#include "target/open.h"

namespace shardc::cli {
namespace {

constexpr size_t kShownMeshes = 5;
// Limits the time for evaluating candidate meshes. A plan of all parameters of
// the model is made for each candidate. The number of candidates times the
// number of parameters is at most this limit: 4000 candidates for a model with
// 500 parameters. At least kShownMeshes candidates are evaluated. If no
// evaluated candidate is legal, more are evaluated until one is.
constexpr size_t kMostPlanned = 2'000'000;
constexpr std::string_view kRemat = "nothing_saveable";
constexpr std::string_view kProfile = "h100-sxm", kMemory = "80GiB";

// Returns the memory of a device in bytes: the value of `--memory`, or else the
// memory of the requested accelerator, or else the default. Returns nullopt
// after a finding.
std::optional<int64_t> MemoryOf(const MeshFlags& flags, Findings& findings) {
  const DeviceProfile* const profile = FindDeviceProfile(flags.profile);
  if (flags.memory.empty() && profile != nullptr) {
    return profile->DeviceMemory();
  }
  return ParseBytes("--memory",
                    flags.memory.empty() ? std::string(kMemory) : flags.memory,
                    findings);
}

std::optional<suggest::MeshRequest> ReadRequest(const MeshFlags& flags,
                                                const std::string& devices,
                                                Findings& findings) {
  suggest::MeshRequest out;
  const auto count =
      ParseInteger("--devices", devices.empty() ? "8" : devices, 1, findings);
  const auto memory = MemoryOf(flags, findings);
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

cost::Settings SettingsFor(const suggest::MeshRequest& request,
                           const DeviceProfile& profile) {
  cost::Settings out;
  out.batch = request.batch;
  out.length = request.sequence;
  std::string why;
  out.remat =
      step::ParseRemat(std::string(kRemat), why).value_or(step::Remat{});
  out.memory = request.memory;
  out.profile = &profile;
  return out;
}

// Evaluates a mesh with the rules that are suggested for it. Suggested rules
// have no section `model`, which describes the model's step. This section is
// copied from the rules `described`, unless they are nullopt. Returns nullopt
// if the rules do not compile.
std::optional<cost::FitMesh> Evaluate(const Mesh& mesh,
                                      const Manifest& manifest,
                                      const std::optional<ModelConfig>& model,
                                      const suggest::Preferences& preferences,
                                      const std::optional<RuleSet>& described,
                                      const cost::Settings& settings) {
  const auto suggestion = suggest::Suggest({.manifest = &manifest,
                                            .mesh = &mesh,
                                            .model = model ? &*model : nullptr,
                                            .preferences = preferences});
  const SourceRef source =
      MakeSource("rules", ImportedFileYaml(suggestion.file));
  Findings unreported;
  const std::string name = "builtin:suggested";
  auto rules = ReadRules(
      std::span(&name, 1), [&](std::string_view) { return source; },
      unreported);
  if (!rules) return std::nullopt;
  if (described) rules->model = described->model;
  CompileOptions options;
  options.modes = {Mode::kTrain};
  const auto compiled =
      Compile(mesh, std::move(*rules), manifest, options, unreported);
  if (compiled == nullptr) return std::nullopt;
  const cost::CostInputs work =
      cost::MakeCostInputs(*compiled, model, Mode::kTrain);
  cost::StepTraffic traffic(*compiled, model, settings);
  return cost::FitOf(*compiled, work, settings, traffic);
}

// Returns the rules of the pack that matches the parameters; nullopt if no pack
// does.
std::optional<RuleSet> PackFor(const Manifest& manifest,
                               const std::optional<ModelConfig>& model) {
  Findings unreported;
  return OpenRules({"auto"}, "", &manifest, model ? model->model_type : "",
                   unreported);
}

// Adds a finding and returns true if roles are unknown for more than a small
// share of the model, and no pack describes its step. Between meshes, the
// traffic of activations decides. Without roles it is not known, so that a mesh
// with tensor parallelism would seem to send nothing.
bool RolesAreUnknown(const suggest::Tree& tree, const Manifest& manifest,
                     const std::optional<ModelConfig>& model,
                     const suggest::Preferences& preferences,
                     const Common& common, Findings& findings) {
  const suggest::ModelDims dims = suggest::InferDims(
      tree, model ? &*model : nullptr, 1, preferences.scan_axis);
  const suggest::UnknownRoles roles = suggest::UnknownRolesOf(tree, dims, true);
  if (!roles.AreMany()) return false;
  const auto described = PackFor(manifest, model);
  if (described && described->model != nullptr) return false;
  const NotKnown fact = suggest::NotKnownRoles(roles, model.has_value());
  PrintMessage(common, NotKnownLines(std::span(&fact, 1)));
  findings.Add(code::kInexpressible, {manifest.source},
               "no mesh is chosen: " + roles.Text() +
                   " have activations whose traffic is not known, so that the "
                   "times of meshes cannot be compared",
               std::string("give the mesh with `--mesh`") +
                   (model ? ""
                          : ", or the model's config.json with `--model`, "
                            "if its sizes show the roles") +
                   "; `shardc fit` compares meshes for rules with a `model:` "
                   "section, which names the roles");
  return true;
}

// Evaluates candidates in the order of `options`. Returns the legal meshes, the
// best first, and sets `evaluated` to the number of evaluated candidates.
std::vector<cost::FitMesh> Ranked(
    const std::vector<suggest::MeshOption>& options, const Manifest& manifest,
    const std::optional<ModelConfig>& model,
    const suggest::Preferences& preferences, const cost::Settings& settings,
    size_t& evaluated) {
  const auto described = PackFor(manifest, model);
  const size_t each = std::max<size_t>(1, manifest.tensors.size());
  const size_t most = std::max(kShownMeshes, kMostPlanned / each);
  std::vector<cost::FitMesh> out;
  for (evaluated = 0; evaluated < options.size(); ++evaluated) {
    if (evaluated >= most && !out.empty()) break;
    auto fit = Evaluate(options[evaluated].mesh, manifest, model, preferences,
                        described, settings);
    if (fit && fit->legal) out.push_back(std::move(*fit));
  }
  cost::SortByCost(out);
  return out;
}

std::string MeshesText(const std::vector<cost::FitMesh>& meshes,
                       const suggest::MeshRequest& request,
                       const cost::Settings& settings) {
  std::string out = "meshes      of " + CountText(request.devices) +
                    " devices of " + BytesText(request.memory) +
                    "; assumed: --batch " + std::to_string(*request.batch) +
                    " --seq " + std::to_string(request.sequence) + " --remat " +
                    std::string(kRemat) + " --profile " +
                    std::string(settings.profile->name) + "\n";
  for (size_t i = 0; i < meshes.size() && i < kShownMeshes; ++i) {
    const cost::FitMesh& one = meshes[i];
    std::string words = MeshWords(one.mesh);
    words.resize(std::max<size_t>(words.size(), 24), ' ');
    out +=
        std::string(i == 0 && (one.Fits() || one.MayFit()) ? "          * "
                                                           : "            ") +
        words + "  " + BytesText(one.memory.Expected().value_or(0)) +
        " per device" +
        (one.Seconds() ? ", " + SecondsText(*one.Seconds()) + " a step" : "") +
        (one.Fits()     ? ""
         : one.MayFit() ? ", may exceed the memory"
                        : ", exceeds the memory") +
        (i > 0 && one.rank && one.rank == meshes[0].rank
             ? ", a tie with the first"
             : "") +
        "\n";
  }
  return out;
}

void ReportNoneFits(const std::vector<cost::FitMesh>& meshes,
                    const suggest::MeshRequest& request, Findings& findings) {
  const cost::FitMesh* const least = cost::NearestToFit(meshes);
  if (least == nullptr) {
    findings.Add(code::kInexpressible, {},
                 "no mesh of " + CountText(request.devices) +
                     " devices divides the sizes of the model",
                 "give another number of devices, or a mesh");
    return;
  }
  const int64_t bytes = least->memory.Expected().value_or(0);
  const double needed =
      static_cast<double>(bytes) /
      static_cast<double>(std::max<int64_t>(1, request.memory));
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
                   BytesText(bytes) + " per device, on " +
                   MeshWords(least->mesh),
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
        .help =
            "memory of a device, such as 80GiB (default: that of --profile, "
            "else 80GiB); chooses the fastest mesh of --devices that holds "
            "the model in training"},
       {.name = "--batch",
        .to = &flags.batch,
        .value = "N",
        .help = "sequences per step (default: one per device)"},
       {.name = "--seq",
        .to = &flags.sequence,
        .value = "N",
        .help = "tokens per sequence (default: 8192)"},
       {.name = "--profile",
        .to = &flags.profile,
        .value = "NAME",
        .help = "accelerator whose rates give the times (default: h100-sxm)"},
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
  auto request = ReadRequest(flags, devices, findings);
  const DeviceProfile* const profile = FindDeviceProfile(
      flags.profile.empty() ? kProfile : std::string_view(flags.profile));
  if (profile == nullptr) {
    findings.Add(code::kUsage, FlagPlace("--profile", flags.profile),
                 ShortQuote(flags.profile) + " is no profile",
                 DidYouMean(flags.profile, DeviceNames(),
                            "`shardc cost --profiles` lists them"));
  }
  if (!request || profile == nullptr) return std::nullopt;
  if (!request->batch) request->batch = request->devices;
  const suggest::Tree tree = suggest::ParameterGroupsOf(manifest);
  if (RolesAreUnknown(tree, manifest, model, preferences, common, findings)) {
    return PickedMesh{.mesh = {}, .refused = true};
  }
  const auto options = suggest::MeshesFor(tree, model ? &*model : nullptr,
                                          *request, preferences);
  const cost::Settings settings = SettingsFor(*request, *profile);
  size_t evaluated = 0;
  const auto meshes =
      Ranked(options, manifest, model, preferences, settings, evaluated);
  if (!meshes.empty() && meshes.front().memory.at_least) {
    PrintMessage(
        common,
        "no mesh was chosen, because the time and the memory of a step "
        "need facts that are not known\n" +
            NotKnownLines(meshes.front().memory.unknown));
    return PickedMesh{.mesh = {}, .refused = true};
  }
  PrintMessage(common, MeshesText(meshes, *request, settings));
  if (evaluated < options.size()) {
    PrintMessage(common,
                 "evaluated   " + CountText(static_cast<int64_t>(evaluated)) +
                     " of " + CountText(static_cast<int64_t>(options.size())) +
                     " meshes, the most promising by an estimate\n");
  }
  if (meshes.empty() || !(meshes.front().Fits() || meshes.front().MayFit())) {
    ReportNoneFits(meshes, *request, findings);
    return PickedMesh{.mesh = {}, .refused = true};
  }
  return PickedMesh{.mesh = meshes.front().mesh};
}

}  // namespace shardc::cli
