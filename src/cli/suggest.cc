// `shardc suggest`: proposes rules for a model that has no rules. Without
// `--force` the rules are written only if they are proven. This means that only
// the rule that is intended for a tensor matches its name, and that `check`
// reports no error or warning about the rules.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "cli/commands.h"
#include "cli/compared_program.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/program_plan.h"
#include "cli/progress.h"
#include "cli/suggested.h"
#include "emit/plans/rules_file.h"
#include "families/families.h"
#include "model/legal_sizes.h"
#include "model/name.h"
#include "model/option_value.h"
#include "parse/project.h"
#include "program/facts.h"
#include "search/rule_options.h"
#include "source/wording.h"
#include "target/open.h"

namespace shardc::cli {
namespace {

struct SuggestFlags {
  InputFlags inputs;
  std::string output, prefer = "memory", naming, scan_axis;
  std::string program;
  MeshFlags mesh;
  bool place_experts = false, divide_parts = false;
  bool force = false;
};

struct SuggestInputs {
  Mesh mesh;
  Manifest manifest;
  std::optional<ModelConfig> model;
  // Whether no mesh is chosen. A finding has then been added.
  bool refused = false;
};

// Returns the parameter tree of the program, if one is given. Otherwise reads
// the tree of the manifest or, without a manifest, builds it
// from a config.json. Returns nullopt after a finding.
std::optional<Manifest> ReadTree(const SuggestFlags& flags,
                                 const Target& target,
                                 const program::TracedProgram* traced,
                                 Findings& findings) {
  if (traced != nullptr) return program::ManifestOf(traced->program);
  if (!target.manifest.empty()) {
    return LoadManifest(flags.inputs, target.manifest, findings);
  }
  if (!target.model.empty()) {
    return families::BuildTree(target.model, flags.naming, findings,
                               target.families,
                               {false, flags.inputs.asked.weights_dtype});
  }
  findings.Add(code::kUsage, {}, "no manifest is given",
               "write `--manifest FILE`, `--model config.json`, or a target in "
               "`shardc.yaml`");
  return std::nullopt;
}

// Reads the inputs. If no mesh is given, chooses a mesh for the number of
// devices. Returns nullopt after a finding.
std::optional<SuggestInputs> ReadInputs(const SuggestFlags& flags,
                                        const Target& target,
                                        const suggest::Preferences& preferences,
                                        const program::TracedProgram* traced,
                                        const Common& common,
                                        Findings& findings) {
  const size_t before = findings.errors();
  SuggestInputs out;
  const bool choose = !IsNamed(target.mesh) && !flags.inputs.devices.empty();
  if (choose && traced != nullptr) {
    findings.Add(
        code::kUsage, {}, "`--program` needs a mesh",
        "write it with `--mesh`, such as `--mesh fsdp:4,tp:2`; `shardc "
        "search --program FILE --devices N` compares meshes");
    return std::nullopt;
  }
  std::optional<Mesh> mesh;
  if (!choose) mesh = LoadMesh(flags.inputs, target, findings);
  auto manifest = ReadTree(flags, target, traced, findings);
  // If building the tree from the configuration has failed, the errors of the
  // configuration have already been reported.
  const bool checked = !manifest && target.manifest.empty();
  if (!target.model.empty() && !checked && traced == nullptr) {
    if (manifest) AddDescribed(target.model, target.families, *manifest);
    out.model =
        OpenModel(target.model, manifest ? &*manifest : nullptr, findings);
  } else if (manifest) {
    out.model = StatedModel(*manifest);
  }
  if (findings.errors() > before || !manifest) return std::nullopt;
  if (!HasShapes(*manifest, findings)) return std::nullopt;
  out.manifest = std::move(*manifest);
  if (choose) {
    const auto picked = PickMesh(flags.mesh, flags.inputs.devices, out.manifest,
                                 out.model, preferences, common, findings);
    if (!picked) return std::nullopt;
    out.refused = picked->refused;
    mesh = picked->mesh;
  }
  if (!mesh) return std::nullopt;
  out.mesh = std::move(*mesh);
  return out;
}

// Returns a dimension whose parts come after the factor that they have first:
// "heads 8 x 3 parts x head_dim 64" for "3 parts x heads 8 x head_dim 64".
std::string PartsInside(const program::Facts& facts,
                        const program::FactorList& dim, int64_t parts) {
  const program::Factor& lead = facts.factors[dim[0]];
  const program::FactorList part =
      lead.role == program::FactorRole::kParts
          ? program::FactorList(dim.begin() + 1, dim.end())
          : lead.parts.front();
  std::string out =
      facts.Text({part[0]}) + " x " + std::to_string(parts) + " parts";
  if (part.size() > 1) {
    out +=
        " x " + facts.Text(program::FactorList(part.begin() + 1, part.end()));
  }
  return out;
}

// Less is not worth another layout.
constexpr double kLeastSaving = 0.05;

// Returns a line about parameters whose parts follow each other in a dimension,
// so that no axis shards them in contiguous ranges, if a device sends clearly
// less once each part can be sharded. Returns an empty text otherwise.
std::string LayoutAdvice(const program::TracedProgram& traced,
                         const SuggestInputs& inputs,
                         const FactorSearch& search,
                         const search::FactorChoice& chosen) {
  if (!search.MayDivideParts()) return "";
  const search::FactorChoice better = search.Cheapest(/*divides_parts=*/true);
  const std::vector<EqualParts> parts = search.DividedBy(better.factors);
  const double saving = 1 - better.sent_bytes / chosen.sent_bytes;
  if (!(saving >= kLeastSaving) || better.time > chosen.time) return "";
  std::vector<std::string> named;
  for (size_t i = 0; i < parts.size(); ++i) {
    const program::ParamFacts& param = traced.facts.params[i];
    for (size_t d = 0; d < parts[i].size(); ++d) {
      if (parts[i][d] < 2) continue;
      std::string text =
          "dimension " + std::to_string(d) + " of " +
          ShortQuote(NameTemplate(param.name, inputs.manifest.separator)) +
          ", " + traced.facts.Text(param.dims[d]) + ", as " +
          PartsInside(traced.facts, param.dims[d], parts[i][d]);
      if (std::ranges::find(named, text) == named.end()) {
        named.push_back(std::move(text));
      }
    }
  }
  if (named.empty()) return "";
  return "layout      store " + named.front() +
         (named.size() > 1
              ? ", and " + std::to_string(named.size() - 1) + " more like it"
              : "") +
         ", or the parts as parameters of their own: a device sends " +
         BytesText(static_cast<int64_t>(better.sent_bytes)) +
         " in a step in place of " +
         BytesText(static_cast<int64_t>(chosen.sent_bytes)) + " (" +
         std::to_string(std::lround(saving * 100)) + " % less)\n";
}

// Returns false, after a finding, if the output is a file that is there. Rules
// are what a user writes by hand, so they are not replaced unasked.
bool MayWrite(const SuggestFlags& flags, Findings& findings) {
  std::error_code error;
  if (flags.force || flags.output.empty() ||
      !std::filesystem::is_regular_file(flags.output, error)) {
    return true;
  }
  findings.Add(code::kWrite, {},
               "`" + Printable(flags.output) + "` exists already",
               "write another name, or `--force` to replace it");
  return false;
}

int RunSuggest(const SuggestFlags& flags, const Common& common,
               Findings& findings) {
  const auto target = ChooseTarget(flags.inputs.asked, findings);
  if (!target) return kFailed;
  suggest::Preferences preferences;
  preferences.prefer_traffic = flags.prefer == "traffic";
  preferences.place_experts = flags.place_experts;
  const auto axis = ReadScanAxis(flags.scan_axis, findings);
  if (!axis) return kFailed;
  preferences.scan_axis = *axis;
  std::optional<program::TracedProgram> traced;
  if (!flags.program.empty()) {
    traced = ReadTracedFile(flags.program, findings);
    if (!traced) return kFailed;
    preferences.traced = &*traced;
  } else if (flags.divide_parts && target->model.empty()) {
    findings.Add(code::kUsage, FlagPlace("--divide-parts", "true"),
                 "`--divide-parts` has an effect only with `--program` or "
                 "`--model`, which show the parts of a dimension",
                 "give the traced program of your function, or leave it out");
    return kFailed;
  }
  preferences.divides_parts = flags.divide_parts;
  const auto inputs = ReadInputs(flags, *target, preferences,
                                 traced ? &*traced : nullptr, common, findings);
  if (!inputs) return kFailed;
  if (inputs->refused) return kFound;
  std::string advice;
  if (traced) {
    ShowStage(common, "comparing shardings of the program");
    const FactorSearch search(*traced, inputs->mesh, inputs->manifest);
    const search::FactorChoice chosen =
        search.Cheapest(preferences.divides_parts);
    preferences.tensor_factors = chosen.factors;
    if (!preferences.divides_parts) {
      advice = LayoutAdvice(*traced, *inputs, search, chosen);
    }
  }
  ShowStage(common, "writing and checking rules");
  const std::string name = flags.output.empty() ? "rules" : flags.output;
  const auto rules = SuggestFor(inputs->manifest, inputs->mesh, inputs->model,
                                preferences, common, name);
  const bool written = rules.Good() || flags.force;
  PrintMessage(common, SuggestionText(rules, written) + advice);
  if (!written) {
    Refuse(rules, inputs->mesh, inputs->model, common, findings);
    return kFound;
  }
  const auto write = [&](Sink& out) {
    if (common.format == "json") {
      WriteImportedFileJson(rules.suggestion.file, out,
                            &rules.suggestion.not_known);
    } else {
      out.Append(rules.text);
    }
  };
  if (!ResultPath(flags.output, findings) || !MayWrite(flags, findings) ||
      !PutResult(write, flags.output, findings)) {
    return kFailed;
  }
  return rules.Good() ? kDone : kFound;
}

Options OptionsOf(SuggestFlags& flags) {
  Options options = MeshInputs(flags.inputs);
  Append(options, ManifestInputs(flags.inputs));
  Append(options, ModelInputs(flags.inputs));
  Append(options, Under(kInputsGroup,
                        {{.name = "--naming",
                          .to = &flags.naming,
                          .value = "hf|hf-files|flax|easydel",
                          .help = "naming of the parameters that are built "
                                  "from a config.json, without a manifest",
                          .checked = true}}));
  Append(options, Under(kInputsGroup, {ScanAxisOption(&flags.scan_axis)}));
  Append(options,
         Under(kInputsGroup,
               {{.name = "--program",
                 .need = HelpNeed::kMost,
                 .to = &flags.program,
                 .value = "FILE",
                 .help = "traced program of your function; its uses of "
                         "parameters decide, in place of names and a "
                         "manifest"}}));
  Append(options, ProjectInputs(flags.inputs));
  Append(options, MeshChoice(flags.mesh));
  Append(
      options,
      {OutputOption(&flags.output,
                    "file to write the rules to (default: stdout)"),
       {.name = "--prefer",
        .need = HelpNeed::kOften,
        .to = &flags.prefer,
        .value = "memory|traffic",
        .help = "layout of a vocabulary that tp does not divide; "
                "slices, gathered before use, or unsharded rows",
        .checked = true},
       {.name = "--place-experts",
        .to = &flags.place_experts,
        .help = "shard experts over fsdp on a mesh without ep, for "
                "runtimes that exchange tokens between experts"},
       {.name = "--divide-parts",
        .to = &flags.divide_parts,
        .help = "with a program or a config.json: shard each of the "
                "equal parts of a dimension (`parts` of a rule), for runtimes "
                "that load them so, such as hf-tp-plan, dtensor "
                "and megatron"},
       {.name = "--force",
        .need = HelpNeed::kOften,
        .to = &flags.force,
        .help = "replace a file that is there; and write the rules "
                "even if findings are left"}});
  return options;
}

}  // namespace

Declared DeclareSuggest() { return Declare(OptionsOf, RunSuggest); }

}  // namespace shardc::cli
