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

#include "cli/lint_target.h"
#include "cli/output.h"
#include "cli/picked_mesh.h"
#include "emit/not_known.h"
#include "emit/plans/rules_file.h"
#include "lint/select.h"
#include "parse/rules.h"
#include "source/wording.h"
#include "suggest/mesh.h"
#include "suggest/pattern_proof.h"

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
  return std::find(kMesh.begin(), kMesh.end(), finding.code->number) !=
         kMesh.end();
}

// Returns whether a finding is about the names, the vocabulary or the
// configuration of the model, so that no rules could avoid it.
bool IsOfModel(const Finding& finding) {
  constexpr std::array<int, 3> kModel = {120, 217, 223};
  return std::find(kModel.begin(), kModel.end(), finding.code->number) !=
         kModel.end();
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
  LintResult result = LintTarget({}, *out.compiled, model, {}, *selection);
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
  Prove(out, mesh, manifest, model, common, name);
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

}  // namespace shardc::cli
