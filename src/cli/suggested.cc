// Proves suggested rules. Their text is parsed like any rules file and
// compiled. Exactly one rule, the intended one, must match each tensor. Then
// lints run, and must report no error or warning. Findings about the mesh or
// the model itself are ignored, because no rules could avoid them. For example,
// rules are accepted although `check` reports this finding about the mesh:
//
//   SHD302 of `--mesh tp:6,dp:4` on 3 hosts: tp's size 6 does not divide the 8
//   devices of a host
#include "cli/suggested.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <iostream>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/check_targets.h"
#include "cli/output.h"
#include "cost/fit.h"
#include "devices/profiles.h"
#include "emit/costs/cost_report.h"
#include "emit/emit.h"
#include "emit/plans/rules_file.h"
#include "lint/run.h"
#include "model/option_value.h"
#include "parse/rules.h"
#include "source/list.h"
#include "source/wording.h"
#include "suggest/dims.h"
#include "suggest/mesh.h"
#include "suggest/parameter_groups.h"
#include "suggest/patterns.h"
#include "suggest/suggest.h"
#include "target/open.h"

namespace shardc::cli {
namespace {

// The largest rules file in bytes. Nobody could review a larger file.
constexpr size_t kLargestFile = size_t{64} << 10;

// The bound of `--scan-axis`, which is at least -kMostRank and less than
// kMostRank.
constexpr int kMostRank = 16;

// Returns whether a finding is about the mesh, so that no rules could avoid it.
bool IsOfMesh(const Finding& finding, const suggest::MeshAxes& mesh) {
  // SHD207 reports large replicated tensors. On a mesh with only data
  // parallelism, replicated tensors are intended.
  if (mesh.devices() == mesh.dp && finding.code->number == 207) return true;
  constexpr std::array<int, 5> kMesh = {301, 302, 303, 501, 502};
  return IsAmong(finding.code->number, kMesh);
}

// Returns whether a finding is about the names, the vocabulary or the
// configuration of the model, so that no rules could avoid it.
bool IsOfModel(const Finding& finding) {
  constexpr std::array<int, 3> kModel = {120, 217, 223};
  return IsAmong(finding.code->number, kModel);
}

void Prove(SuggestedRules& out, const Mesh& mesh, const Manifest& manifest,
           const std::optional<ModelConfig>& model, const Common& common,
           const std::string& name) {
  const SourceRef source = MakeSource(name, out.text);
  Findings findings;
  const std::string word = "builtin:suggested";
  auto rules = ReadRules(
      std::span(&word, 1), [&](std::string_view) { return source; }, findings);
  CompileOptions options;
  options.threads = std::max(1, common.threads);
  options.config = SharedConfig(model);
  if (rules) {
    out.compiled =
        Compile(mesh, std::move(*rules), manifest, options, findings);
  }
  for (const Finding& finding : findings.all()) out.left.push_back(finding);
  if (out.compiled == nullptr) return;
  const auto& first = out.compiled->matches.first;
  for (size_t i = 0; i < first.size(); ++i) {
    const size_t matches = out.compiled->matches.Of(i).size();
    if (first[i] == out.suggestion.rule_of[i] && matches == 1) continue;
    Findings wrong;
    wrong.Add(code::kInexpressible, {source},
              suggest::MatchFault(manifest.tensors[i].name, matches));
    out.left.push_back(wrong.all().front());
    break;
  }
  Findings ignored;
  const auto selection = Selection::Make(LintSettings{}, false, ignored);
  if (!selection) return;
  LintFlags flags;
  flags.traced = out.preferences.traced;
  LintResult result = LintTarget({}, *out.compiled, model, flags, *selection);
  for (Finding& finding : result.findings) {
    if (finding.level == Level::kNote ||
        IsOfMesh(finding, out.suggestion.mesh) || IsOfModel(finding)) {
      continue;
    }
    out.left.push_back(std::move(finding));
  }
}

// Suggests rules without a proof.
SuggestedRules Unproven(const Manifest& manifest, const Mesh& mesh,
                        const std::optional<ModelConfig>& model,
                        const suggest::Preferences& preferences) {
  SuggestedRules out;
  out.suggestion = suggest::Suggest({.manifest = &manifest,
                                     .mesh = &mesh,
                                     .model = model ? &*model : nullptr,
                                     .preferences = preferences});
  out.preferences = preferences;
  out.text = ImportedFileYaml(out.suggestion.file);
  out.misfit = out.suggestion.misfit;
  if (out.misfit.empty() && out.text.size() > kLargestFile) {
    out.misfit =
        "the names have no layer numbers, so the rules are lists of names, " +
        BytesText(static_cast<int64_t>(out.text.size())) + " of them";
  }
  return out;
}

SuggestedRules MakeRules(const Manifest& manifest, const Mesh& mesh,
                         const std::optional<ModelConfig>& model,
                         const suggest::Preferences& preferences,
                         const Common& common, const std::string& name) {
  SuggestedRules out = Unproven(manifest, mesh, model, preferences);
  // A file without rules would leave a finding for each parameter.
  if (!suggest::HasTooManyGroups(out.suggestion.tree)) {
    Prove(out, mesh, manifest, model, common, name);
  }
  return out;
}

// Returns a list of up to three meshes, the fastest first, for which suggested
// rules are proven. The meshes have as many devices as `mesh`. If there is no
// such mesh, the number of devices is raised to the next power of two. Returns
// an empty text if no mesh is found for that number either.
std::string NearestText(const SuggestedRules& rules, const Mesh& mesh,
                        const std::optional<ModelConfig>& model,
                        const Common& common) {
  constexpr size_t kShown = 3;
  constexpr size_t kTried = 6;
  std::string out;
  if (suggest::HasTooManyGroups(rules.suggestion.tree)) return out;
  const auto given = static_cast<uint64_t>(mesh.devices);
  std::vector<uint64_t> numbers = {given};
  if (!std::has_single_bit(given)) numbers.push_back(std::bit_ceil(given));
  suggest::MeshRequest request;
  request.memory = INT64_MAX;
  for (const uint64_t devices : numbers) {
    request.devices = static_cast<int64_t>(devices);
    if (request.devices > (int64_t{1} << 20)) break;
    const auto options =
        suggest::MeshesFor(rules.suggestion.tree, model ? &*model : nullptr,
                           request, rules.preferences);
    size_t shown = 0;
    for (size_t i = 0; i < options.size() && i < kTried && shown < kShown;
         ++i) {
      const Mesh& tried = options[i].mesh;
      const Manifest& manifest = *rules.suggestion.tree.manifest;
      SuggestedRules other =
          Unproven(manifest, tried, model, rules.preferences);
      // Rules for a mesh that does not suit the model need no proof.
      if (!other.misfit.empty()) continue;
      Prove(other, tried, manifest, model, common, "rules");
      if (!other.Good()) continue;
      out += (shown == 0 ? "meshes that fit: `" : "`, `") + MeshWords(tried);
      ++shown;
    }
    if (!out.empty()) return out + "`; ";
  }
  return out;
}

}  // namespace

bool HasShapes(const Manifest& manifest, Findings& findings) {
  const auto all = static_cast<int64_t>(manifest.tensors.size());
  const auto nameless = std::count_if(
      manifest.tensors.begin(), manifest.tensors.end(),
      [&](const Tensor& tensor) { return !manifest.TypeOf(tensor).shape; });
  if (nameless == 0 && all > 0) return true;
  findings.Add(code::kMissing, {manifest.source},
               all == 0 ? "there are no parameters"
                        : CountText(nameless) + " of " +
                              Counted(all, "parameter") + " have no shape",
               "suggest needs shapes: give the safetensors files or their "
               "headers, or a manifest with shapes");
  return false;
}

namespace {

// A layer stack is a part of the model in which each tensor holds several
// layers, and one dimension counts them. If the model has exactly one stack,
// and sizes and names do not determine this dimension, returns the stack, so
// that the user can be prompted for the dimension. Otherwise returns null: one
// dimension might not be right for several stacks.
const LayerStack* UndecidedAlone(const SuggestedRules& rules) {
  const auto& stacks = rules.suggestion.dims.stacks.stacks;
  const bool alone = stacks.size() == 1 &&
                     stacks.front().confidence == StackConfidence::kUndecided;
  return alone ? &stacks.front() : nullptr;
}

// Prompts the user for the dimension that counts layers. The answer is a value
// of `--scan-axis`, or empty to accept the assumed dimension. Returns nullopt
// if there is no terminal or the answer is invalid.
std::optional<ScanAxis> ScanAxisFor(const LayerStack& stack,
                                    const Common& common) {
  if (common.quiet || isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1) {
    return std::nullopt;
  }
  PrintMessage(common, "undecided   whether " + StackText(stack) + ": " +
                           stack.evidence +
                           "\nWhich dimension counts layers? A number, `none`, "
                           "or Enter for " +
                           std::to_string(stack.dim) + ": ");
  std::string answer;
  if (!std::getline(std::cin, answer)) return std::nullopt;
  if (answer.empty()) return ScanAxis{.none = false, .dim = stack.dim};
  Findings findings;
  const auto axis = ReadScanAxis(answer, findings);
  if (!axis) PrintMessage(common, "`" + answer + "` is neither\n");
  return axis;
}

// Returns what to do about axes of stages, and about axes whose purpose is
// unknown, with semicolons.
std::string UnusedAxesText(const SuggestedRules& rules) {
  std::string out;
  const std::vector<std::string>& stages = rules.suggestion.mesh.stages;
  const std::vector<std::string>& unknown = rules.suggestion.mesh.unused;
  if (!stages.empty()) {
    out += "leave `" + stages.front() +
           "` out of `--mesh`, write rules for the mesh of one stage, and "
           "declare the stages in the suggested file with `stages: {axis: " +
           stages.front() + "}`; ";
  }
  if (!unknown.empty()) {
    out +=
        "call these axes `dp`, `fsdp`, `tp`, `sp` or `ep` in `--mesh`, and "
        "write what they are for in the suggested file, such as `axes: "
        "{tensor_parallel: " +
        unknown.front() + "}`; ";
  }
  return out;
}

}  // namespace

SuggestedRules SuggestFor(const Manifest& manifest, const Mesh& mesh,
                          const std::optional<ModelConfig>& model,
                          const suggest::Preferences& preferences,
                          const Common& common, const std::string& name) {
  SuggestedRules out =
      MakeRules(manifest, mesh, model, preferences, common, name);
  const LayerStack* const undecided = UndecidedAlone(out);
  if (undecided == nullptr) return out;
  const auto answer = ScanAxisFor(*undecided, common);
  if (!answer) return out;
  suggest::Preferences decided = preferences;
  decided.scan_axis = *answer;
  return MakeRules(manifest, mesh, model, decided, common, name);
}

void Refuse(const SuggestedRules& rules, const Mesh& mesh,
            const std::optional<ModelConfig>& model, const Common& common,
            Findings& findings) {
  if (!rules.misfit.empty()) {
    findings.Add(code::kInexpressible, {},
                 "no suitable rules found for mesh " + MeshText(mesh) + ": " +
                     rules.misfit,
                 UnusedAxesText(rules) +
                     NearestText(rules, mesh, model, common) +
                     "`shardc suggest --force` writes them anyway");
  } else if (!rules.left.empty()) {
    Finding refused;
    refused.code = &code::kInexpressible;
    // A warning if all the reasons are warnings.
    refused.level = std::min_element(rules.left.begin(), rules.left.end(),
                                     [](const Finding& a, const Finding& b) {
                                       return a.level < b.level;
                                     })
                        ->level;
    refused.message =
        "the suggested rules are not written, because of " +
        Counted(static_cast<int64_t>(rules.left.size()), "finding") +
        " of `check` about them";
    refused.help = "`shardc suggest --force` writes them anyway";
    findings.Add(std::move(refused));
  }
  for (const Finding& finding : rules.left) findings.Add(finding);
}

std::string UnknownText(const SuggestedRules& rules) {
  const suggest::Suggestion& suggestion = rules.suggestion;
  const auto roles = suggest::UnknownRolesOf(suggestion.tree, suggestion.dims);
  return (roles.any() ? "unknown     " + roles.Text() + "\n" : "") +
         NotKnownLines(suggestion.not_known);
}

std::string SuggestionText(const SuggestedRules& rules, bool written) {
  const suggest::Suggestion& suggestion = rules.suggestion;
  const auto count = static_cast<int64_t>(suggestion.file.rules.size());
  std::array<char, 32> ratio{};
  std::snprintf(ratio.data(), ratio.size(), "%.3f", suggestion.Ratio());
  std::string out =
      (written ? "suggested   " : "not written ") + Counted(count, "rule") +
      " for " +
      Counted(static_cast<int64_t>(suggestion.tree.manifest->tensors.size()),
              "parameter") +
      ", " + BytesText(suggestion.bytes_per_device) + " per device, " +
      ratio.data() + " of the fully sharded size\n";
  if (suggestion.dims.facts.heads_assumed && suggestion.mesh.tp > 1) {
    out +=
        suggestion.dims.facts.has_config
            ? "assumed     the size of a head where the model's config.json "
              "does not state it\n"
            : "assumed     the size of a head; give `--model config.json` to "
              "confirm it\n";
  }
  if (suggestion.tree.manifest->dtype_assumed) {
    out += "assumed     " + std::string(kDtypeAssumed) + "\n";
  }
  return out + UnknownText(rules) + UndecidedText(rules);
}

std::string UndecidedText(const SuggestedRules& rules) {
  std::string out;
  for (const LayerStack& stack : rules.suggestion.dims.stacks.stacks) {
    if (stack.confidence != StackConfidence::kUndecided) continue;
    out += "undecided   whether " + StackText(stack) + ": " + stack.evidence +
           "; assumed, `--scan-axis none` or another axis decides it\n";
  }
  return out;
}

Option ScanAxisOption(std::string* axis) {
  return {.name = "--scan-axis",
          .to = axis,
          .value = "N",
          .help =
              "the dimension that counts scanned layers, below 0 counted "
              "from the last one, or `none` (default: by sizes and names)"};
}

std::optional<ScanAxis> ReadScanAxis(const std::string& text,
                                     Findings& findings) {
  if (text.empty()) return ScanAxis{};
  if (text == "none") return ScanAxis{.none = true, .dim = {}};
  int dim = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, dim);
  if (error == std::errc() && at == end && dim >= -kMostRank &&
      dim < kMostRank) {
    return ScanAxis{.none = false, .dim = dim};
  }
  findings.Add(code::kUsage, FlagPlace("--scan-axis", text),
               ShortQuote(text) + " is no axis of scanned layers",
               "write the dimension, such as 0, 1 or -1, or `none`");
  return std::nullopt;
}

// Chooses a mesh for a number of devices. For each candidate mesh, rules are
// suggested, and the mesh is evaluated with these rules as in `search --all`
// and `cost`. The best candidates are printed, the chosen one with a star. If
// some candidates are legal but none fits in memory, a finding estimates how
// many devices would be enough:
//
//   * fsdp:64                   18.1 GiB per device, 1.34 s a step
//     dp:2,fsdp:32              19.9 GiB per device, 1.34 s a step

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
  options.config = SharedConfig(model);
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
  findings.Add(
      code::kInexpressible, {manifest.source},
      "no mesh is chosen: " + roles.Text() +
          " have activations whose traffic is not known, so that the "
          "times of meshes cannot be compared",
      std::string("give the mesh with `--mesh`") +
          (model ? ""
                 : ", or the model's config.json with `--model`, "
                   "if its sizes show the roles") +
          "; `shardc search --all` compares meshes for rules with a `model:` "
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
        words + "  " +
        AtLeast(!one.memory.Complete(),
                BytesText(one.memory.Expected().value_or(0))) +
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
        .need = HelpNeed::kOften,
        .to = &flags.memory,
        .value = "SIZE",
        .help =
            "memory of a device, such as 80GiB (default: that of --profile, "
            "else 80GiB); chooses the fastest mesh of --devices that holds "
            "the model in training"},
       {.name = "--batch",
        .need = HelpNeed::kOften,
        .to = &flags.batch,
        .value = "N",
        .help = "sequences per step (default: one per device)"},
       {.name = "--seq",
        .need = HelpNeed::kOften,
        .to = &flags.sequence,
        .value = "N",
        .help = "tokens per sequence (default: 8192)"},
       {.name = "--profile",
        .need = HelpNeed::kOften,
        .to = &flags.profile,
        .value = "NAME",
        .help = "accelerator whose rates give the times (default: h100-sxm)"},
       {.name = "--per-host",
        .to = &flags.per_host,
        .value = "N",
        .help = "devices per host, which fast links join (default: 8)"}});
}

std::string MeshWords(const Mesh& mesh) {
  return Join(mesh.axes, ",", [&](const MeshAxis& axis) {
    return axis.name + ":" + std::to_string(axis.size);
  });
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

// Writes a mesh as a short text if it has only axes and their sizes. Otherwise
// writes the keys of a mesh file, indented below `mesh`:
//
//   fsdp:8,tp:4           ->   "fsdp:8,tp:4"
//   two slices over dp    ->   axes: ..., dcn: {dp: 2}

namespace {

// Returns the value that the key `device` gets in a mesh file, as YAML: the
// name of a device profile such as `h100`, or the memory, such as `{memory:
// 1024B}`. Returns an empty text if neither is known.
std::string DeviceYaml(const Device& device) {
  std::string out;
  if (!device.profile.empty()) {
    const DeviceProfile* const profile = FindDeviceProfile(device.profile);
    if (profile != nullptr && device.memory_bytes == profile->DeviceMemory()) {
      return device.profile;
    }
    out = "profile: " + device.profile;
  }
  if (device.memory_bytes) {
    AppendItem(out, ", ",
               "memory: " + std::to_string(*device.memory_bytes) + "B");
  }
  return out.empty() ? "" : "{" + out + "}";
}

}  // namespace

std::string MeshYaml(const Mesh& mesh) {
  Mesh sizes;
  sizes.devices = mesh.devices;
  for (const MeshAxis& axis : mesh.axes) {
    sizes.axes.push_back({.name = axis.name, .size = axis.size});
  }
  std::string text = MeshFileYaml(mesh);
  const std::string device = mesh.device ? DeviceYaml(*mesh.device) : "";
  if (device.empty() && text == MeshFileYaml(sizes)) {
    return " \"" + MeshWords(mesh) + "\"\n";
  }
  if (!device.empty()) text += "device: " + device + "\n";
  std::string out = "\n";
  while (!text.empty()) {
    const size_t end = text.find('\n') + 1;
    out += "      " + text.substr(0, end);
    text.erase(0, end);
  }
  return out;
}

}  // namespace shardc::cli
