// Reads the inputs of `search`. The model's parameter tree is read from its
// manifest, or built from its config.json. Without rules, the search starts
// from the pack (the built-in rules of a model family) that matches the names
// of parameters. Rules that the search suggests extend this pack, because the
// pack also describes the model's step.
#include "cli/search_inputs.h"

#include <algorithm>
#include <utility>

#include "cli/output.h"
#include "cli/plan_findings.h"
#include "cli/suggested.h"
#include "cost/fit.h"
#include "emit/plans/rules_file.h"
#include "families/families.h"
#include "model/option_value.h"
#include "parse/project.h"
#include "parse/rules.h"
#include "plan/compile.h"
#include "plan/lowered_step.h"
#include "source/json_writer.h"
#include "source/list.h"
#include "source/other_words.h"
#include "source/process.h"
#include "source/wording.h"
#include "target/choose.h"
#include "target/open.h"

namespace shardc::cli {
namespace {

constexpr int64_t kMostProved = 64;

// What is searched, the flag that requests it, and what options of the two
// others that have no effect on it are named.
struct SearchKind {
  std::string_view flag, of;
};
constexpr SearchKind kSteps = {"", "training steps"},
                     kEvery = {"--all", "the table of every mesh"},
                     kServed = {"--serve", "layouts of a server"};

// Returns the kind that has the option alone; null if the given kind has it.
const SearchKind* OtherKind(const Option& option, const SearchKind& kind) {
  // Under other headings: options of a step, of which a server has some, and
  // options of the choice among shardings, which the table does not make.
  constexpr std::string_view kOfServer[] = {
      "--profile", "--memory",    "--unmeasured", "--prove",
      "--naming",  "--scan-axis", "--output"};
  constexpr std::string_view kOfChoice[] = {"--unmeasured", "--prove",
                                            "--naming",     "--scan-axis",
                                            "--keep",       "--seconds"};
  if (option.group == kServeGroup) {
    const bool has =
        &kind == &kServed || (&kind == &kEvery && option.name == "--kv-dtype");
    return has ? nullptr : &kServed;
  }
  if (option.group == kEveryGroup) {
    return &kind == &kEvery ? nullptr : &kEvery;
  }
  if (option.group == kInputsGroup || option.group == kCompilingGroup) {
    return nullptr;
  }
  if (&kind == &kServed) {
    return IsAmong(option.name, kOfServer) ? nullptr : &kSteps;
  }
  return &kind == &kEvery && IsAmong(option.name, kOfChoice) ? &kSteps
                                                             : nullptr;
}

std::optional<Manifest> ReadTree(const SearchFlags& flags, const Target& target,
                                 Findings& findings) {
  std::optional<Manifest> out;
  if (!target.manifest.empty()) {
    out = LoadManifest(flags.cost.inputs, target.manifest, findings);
  } else if (!target.model.empty()) {
    out = families::BuildTree(target.model, flags.naming, findings,
                              target.families,
                              {true, flags.cost.inputs.asked.weights_dtype});
  } else {
    findings.Add(code::kUsage, {}, "no model is given",
                 "write `--model config.json`, `--manifest FILE`, or a target "
                 "in `shardc.yaml`");
  }
  if (out && !HasShapes(*out, findings)) return std::nullopt;
  return out;
}

bool ReadKeep(const SearchFlags& flags, bool& mesh, bool& rules,
              Findings& findings) {
  for (const std::string& one : SplitList(flags.keep)) {
    if (one == "mesh") {
      mesh = true;
    } else if (one == "rules") {
      rules = true;
    } else {
      static constexpr std::string_view kKept[] = {"mesh", "rules"};
      RefuseWord(FlagPlace("--keep", one), "--keep", one, kKept, findings);
      return false;
    }
  }
  return true;
}

// Returns the names of the rules from which the search starts. `auto` is
// replaced by the pack (the built-in rules of a model family) that matches the
// names of parameters. Without any rules, that pack is returned.
std::vector<std::string> RulesToBegin(const Target& target,
                                      const Manifest& manifest,
                                      const std::string& model_type,
                                      Findings& findings) {
  const auto pack = PickPack(manifest, model_type);
  std::vector<std::string> out;
  for (const std::string& one : target.rules) {
    if (one == "-") {
      findings.Add(code::kUsage, FlagPlace("--rules", one),
                   "`search` reads its rules several times, and standard input "
                   "can be read only once",
                   "write the rules to a file");
    } else if (one != "auto") {
      out.push_back(one);
    } else if (pack) {
      out.push_back(*pack);
    } else {
      findings.Add(code::kUsage, FlagPlace("--rules", one),
                   "no pack knows the names of the parameters",
                   "leave out `--rules`, and rules are suggested");
    }
  }
  if (target.rules.empty() && pack) out.push_back(*pack);
  return out;
}

// Reads a rules file that the search made, in the same way as commands read
// rules files. Returns nullopt, without findings, if it cannot be read.
std::optional<RuleSet> ReadSearched(const search::RulesFile& file,
                                    const Manifest& manifest,
                                    const std::string& model_type) {
  Findings unreported;
  const bool plain = file.own.rules.empty() && file.own.axes == AxisRules{} &&
                     !file.own.policy.kv_replicate;
  if (plain) {
    return OpenRules(file.extends, "", &manifest, model_type, unreported);
  }
  const SourceRef source =
      MakeSource(std::string(kSearchedRules), SearchedRulesYaml(file));
  const std::string word = "builtin:searched";
  auto rules = ReadRules(
      std::span(&word, 1),
      [&](std::string_view name) {
        return name == word ? source : FindPack(name, NamingOf(manifest));
      },
      unreported);
  if (!rules) return std::nullopt;
  FitPacksToStacks(*rules, manifest);
  for (Rule& rule : rules->rules) {
    if (rule.place.source != nullptr) {
      rule.source_name = rule.place.source->name();
    }
  }
  return rules;
}

std::optional<int64_t> ReadDevices(const InputFlags& flags,
                                   const std::optional<Mesh>& mesh,
                                   Findings& findings) {
  if (!flags.devices.empty()) return DeviceCount(flags.devices, findings);
  if (mesh) return mesh->devices;
  findings.Add(code::kUsage, {}, "the number of devices is not given",
               "write `--devices N`");
  return std::nullopt;
}

// Returns whether the mesh is that of the project's target and has all its
// sizes, and the search replaces it. It then gives the accelerator, and need
// not have as many devices as `--devices` requests.
bool HasSearchedMesh(const SearchFlags& flags, const Target& target,
                     bool keep_mesh, Findings& findings) {
  if (!IsNamed(target.mesh) || keep_mesh ||
      !flags.cost.inputs.asked.mesh.empty()) {
    return false;
  }
  InputFlags without_devices = flags.cost.inputs;
  without_devices.devices.clear();
  Findings unreported;
  const auto mesh = LoadMesh(without_devices, target, unreported);
  findings.NoteReadsOf(unreported);
  return mesh.has_value();
}

// Sets inputs that were not given to defaults. The defaults are recorded in
// `assumed` for the report.
void Assume(const SearchFlags& flags, SearchInputs& inputs) {
  cost::Settings& settings = inputs.request.settings;
  if (!settings.batch) {
    settings.batch = inputs.request.devices;
    inputs.assumed.push_back("--batch " + std::to_string(*settings.batch));
  }
  if (!settings.length) {
    settings.length = kUsualLength;
    inputs.assumed.push_back("--seq " + std::to_string(kUsualLength));
  }
  if (inputs.has_stages) inputs.assumed.emplace_back("--stages none");
  if (flags.cost.settings["--optimizer"].empty() &&
      settings.optimizer == cost::Optimizer::kAdamW) {
    inputs.assumed.emplace_back("--optimizer adamw");
  }
}

bool SetProfile(const Mesh* mesh, cost::Settings& settings,
                Findings& findings) {
  if (settings.profile == nullptr && mesh != nullptr && mesh->device) {
    settings.profile = FindDeviceProfile(mesh->device->profile);
  }
  if (settings.profile != nullptr) return true;
  findings.Add(code::kUsage, {},
               "no accelerator is named, so steps have no "
               "time",
               "write `--profile NAME`; `shardc cost --profiles` lists them");
  return false;
}

bool ReadCounts(const SearchFlags& flags, SearchInputs& out,
                Findings& findings) {
  if (!flags.seconds.empty()) {
    const auto seconds = ParseInteger("--seconds", flags.seconds, 1, findings);
    if (!seconds) return false;
    out.request.seconds = static_cast<double>(*seconds);
  }
  if (!flags.prove.empty()) {
    const auto prove = ParseInteger("--prove", flags.prove, 0, findings);
    if (!prove) return false;
    out.prove = std::min(*prove, kMostProved);
  }
  return true;
}

}  // namespace

std::optional<int64_t> DeviceCount(const std::string& text,
                                   Findings& findings) {
  const auto devices = ParseInteger("--devices", text, 1, findings);
  if (devices && *devices > kMostDevices) {
    findings.Add(code::kNumber, FlagPlace("--devices", text),
                 "`--devices` is more than " + CountText(kMostDevices));
    return std::nullopt;
  }
  return devices;
}

Options OptionsOfServe(ServeFlags& flags) {
  Options options = {
      {.name = "--serve",
       .need = HelpNeed::kMost,
       .to = &flags.serve,
       .help = "search layouts of a server, and not of a training step"},
      {.name = "--ttft",
       .need = HelpNeed::kMost,
       .to = &flags.first,
       .value = "T",
       .help = "most time to the first token, such as 800ms or 2s"},
      {.name = "--tpot",
       .need = HelpNeed::kMost,
       .to = &flags.token,
       .value = "T",
       .help = "most time of each further token, such as 20ms or 0.1s"},
      {.name = "--requests",
       .to = &flags.arriving,
       .value = "R",
       .help = "requests that arrive each second: use the fewest devices that "
               "serve them (default: all devices, as many as they serve)"},
      {.name = "--aggregated",
       .to = &flags.aggregated,
       .help = "try only instances that prefill and decode"}};
  for (Option& option : OptionsOf(flags.engine)) {
    if (option.name == "--slots" || option.name == "--fill") continue;
    if (option.name == "--engine") option.help = "engine that serves the model";
    if (option.name == "--disaggregated") {
      option.help = "try only pairs of instances for prefill and for decode";
    }
    options.push_back(std::move(option));
  }
  return options;
}

Options OptionsOfSearch(SearchFlags& flags) {
  Options options = OptionsOfCost(flags.cost);
  std::erase_if(options, [](const Option& option) {
    return option.name == "--modes" || option.name == "--processes";
  });
  for (Option& option : options) {
    if (option.name == "--mode" || option.name == "--kv-len") {
      option.group = kEveryGroup;
    } else if (option.name == "--remat" || option.name == "--microbatches" ||
               option.name == "--zero") {
      option.help = option.help.substr(0, option.help.rfind(" (default"));
      option.help += " (default: searched)";
    } else if (option.name == "--batch") {
      option.help =
          "rows per step over all devices (default: the target's, else one a "
          "device)";
    } else if (option.name == "--seq") {
      option.help = "tokens per row (default: 8192)";
    } else if (option.name == "--kv-dtype") {
      option.group = kServeGroup;
    }
  }
  Append(options,
         {{.name = "--keep",
           .need = HelpNeed::kMost,
           .to = &flags.keep,
           .value = "mesh|rules,...",
           .help = "keep the given mesh, or the given rules",
           .several = Several::kCommas,
           .words = Words({"mesh", "rules"})},
          {.name = "--program",
           .need = HelpNeed::kOften,
           .to = &flags.program,
           .value = "FILE",
           .help = "traced program of your function; its mesh is "
                   "searched, in place of a model's sharding"},
          {.name = "--donate",
           .to = &flags.donate,
           .help = "with `--program`: as for `cost`"},
          {.name = "--unmeasured",
           .to = &flags.unmeasured,
           .help = "let choices win that no measured run supports"},
          {.name = "--seconds",
           .need = HelpNeed::kOften,
           .to = &flags.seconds,
           .value = "N",
           .help = "stop after so many seconds; what is unfinished is "
                   "printed"},
          {.name = "--prove",
           .to = &flags.prove,
           .value = "N",
           .help = "prove the winner, and the next ones of the front up to N, "
                   "as `verify step` does (default: 1)"},
          {.name = "--naming",
           .to = &flags.naming,
           .value = "hf|hf-files|flax|easydel",
           .help = "naming of the parameters that are built from a "
                   "config.json, without a manifest",
           .checked = true},
          ScanAxisOption(&flags.scan_axis),
          {.name = "--output",
           .need = HelpNeed::kMost,
           .to = &flags.output,
           .value = "FOLDER",
           .help = "folder to write the winner to; mesh.yaml, "
                   "rules.yaml, and a project that uses them; with "
                   "--all the file of the table",
           .letter = 'o'},
          {.name = "--details",
           .need = HelpNeed::kOften,
           .to = &flags.details,
           .help = "print the front, all alternatives and assumptions; "
                   "with --all the meshes that do not fit, too"}});
  Options every = {
      {.name = "--all",
       .need = HelpNeed::kMost,
       .to = &flags.every.all,
       .help = "list every mesh of --devices with its costs; and "
               "the legal sizes of each axis, under the given "
               "rules"},
      {.name = "--axes",
       .to = &flags.every.axes,
       .value = "AXIS,...",
       .help = "axes to try, outermost first (default: those of data, fully "
               "sharded data, expert and tensor parallelism)",
       .several = Several::kCommas},
      {.name = "--limit",
       .need = HelpNeed::kOften,
       .to = &flags.every.limit,
       .value = "N",
       .help = "number of meshes to list (default: 10)"}};
  Append(every, OptionsOf(flags.every.stages));
  for (Option& option : every) option.group = kEveryGroup;
  Append(options, std::move(every));
  Append(options, Under(kServeGroup, OptionsOfServe(flags.serve)));
  return options;
}

bool CheckSearchOptions(const SearchFlags& given, const Common& common,
                        Findings& findings) {
  SearchFlags flags = given, defaults;
  if (flags.every.all && flags.serve.serve) {
    findings.Add(code::kUsage, {}, "`--all` and `--serve` exclude each other",
                 "leave out one of them");
    return false;
  }
  const SearchKind& kind = flags.every.all     ? kEvery
                           : flags.serve.serve ? kServed
                                               : kSteps;
  const Options options = OptionsOfSearch(flags),
                usual = OptionsOfSearch(defaults);
  for (size_t i = 0; i < options.size(); ++i) {
    const Option& option = options[i];
    if (option.name == kind.flag || !IsGiven(option, usual[i])) continue;
    const SearchKind* const other = OtherKind(option, kind);
    if (other == nullptr) continue;
    findings.Add(
        code::kUsage, {},
        Quote(option.name) + " is for " + std::string(other->of),
        (other == &kSteps ? "leave out " + Quote(kind.flag) + " or "
                          : "add " + Quote(other->flag) + ", or leave out ") +
            Quote(option.name));
    return false;
  }
  if (&kind != &kSteps && common.format == "html") {
    findings.Add(code::kUsage, {}, Quote(kind.flag) + " writes no page",
                 "give `--format text` or `--format json`");
    return false;
  }
  return true;
}

std::unique_ptr<SearchInputs> ReadSearchInputs(const SearchFlags& flags,
                                               const Common& common,
                                               Findings& findings) {
  const auto chosen = ChooseTarget(flags.cost.inputs.asked, findings);
  if (!chosen) return nullptr;
  const Target& target = *chosen;
  auto out = std::make_unique<SearchInputs>();
  search::Request& request = out->request;
  bool keep_mesh = false;
  const auto settings =
      CostSettings(flags.cost, target, Mode::kTrain, findings);
  const auto axis = ReadScanAxis(flags.scan_axis, findings);
  const bool counts = ReadCounts(flags, *out, findings);
  if (!ReadKeep(flags, keep_mesh, request.keep_rules, findings) || !settings ||
      !axis || !counts) {
    return nullptr;
  }
  InputFlags given = flags.cost.inputs;
  const bool has_mesh = IsNamed(target.mesh);
  if (HasSearchedMesh(flags, target, keep_mesh, findings)) {
    given.devices.clear();
  }
  std::optional<Mesh> mesh;
  if (has_mesh) mesh = LoadMesh(given, target, findings);
  auto manifest = ReadTree(flags, target, findings);
  if ((has_mesh && !mesh) || !manifest) return nullptr;
  if (keep_mesh && !mesh) {
    findings.Add(code::kUsage, FlagPlace("--keep", "mesh"),
                 "there is no mesh to keep", "write `--mesh FILE|AXES`");
    return nullptr;
  }
  if (!target.model.empty()) {
    AddDescribed(target.model, target.families, *manifest);
    request.model = OpenModel(target.model, &*manifest, findings);
    if (!request.model) return nullptr;
  } else {
    request.model = StatedModel(*manifest);
  }
  const std::string model_type =
      request.model ? request.model->model_type : std::string();
  const auto devices = ReadDevices(flags.cost.inputs, mesh, findings);
  const size_t before = findings.errors();
  request.rules = RulesToBegin(target, *manifest, model_type, findings);
  if (!devices || findings.errors() > before) return nullptr;
  if (request.keep_rules && request.rules.empty()) {
    findings.Add(code::kUsage, FlagPlace("--keep", "rules"),
                 "there are no rules to keep", "write `--rules FILE`");
    return nullptr;
  }
  request.settings = *settings;
  if (!request.rules.empty()) {
    // The rules are read as other commands read them, together with the other
    // inputs of the target (mesh and manifest), so that all errors of rules are
    // reported.
    Target whole = target;
    whole.rules = request.rules;
    if (!has_mesh) whole.mesh.text = "dp:1";
    if (!has_mesh) given.devices.clear();
    auto opened = LoadTarget(given, whole, common, findings);
    if (!opened) return nullptr;
    // A server loads the tensors of the published checkpoint, which may be
    // quantised. The tree is that of `cost --mode decode`.
    if (flags.serve.serve && target.manifest.empty() && flags.naming == "hf") {
      manifest = std::move(opened->manifest);
    }
    request.options = opened->options;
    out->has_stages = opened->stages.has_value();
    Findings unreported;
    out->has_rules_stages =
        DeclaredStages({}, opened->rules, {}, unreported).has_value() ||
        unreported.HasErrors();
    if (opened->rules.model != nullptr) request.description = request.rules;
    request.settings =
        cost::WithLossOf(opened->rules, std::move(request.settings));
  }
  request.options.modes = {Mode::kTrain};
  request.options.threads = 1;
  request.options.config = SharedConfig(request.model);
  request.manifest = std::move(*manifest);
  request.devices = *devices;
  request.remat_fixed = !flags.cost.settings["--remat"].empty();
  request.microbatches_fixed = !flags.cost.settings["--microbatches"].empty();
  request.zero_fixed = !flags.cost.settings["--zero"].empty();
  if (mesh && mesh->device) request.device = *mesh->device;
  if (!SetProfile(mesh ? &*mesh : nullptr, request.settings, findings)) {
    return nullptr;
  }
  if (keep_mesh) request.mesh = std::move(*mesh);
  request.preferences.scan_axis = *axis;
  request.unmeasured = flags.unmeasured;
  request.threads = ThreadsOr(common.threads);
  request.read = [inputs = out.get(),
                  model_type](const search::RulesFile& file) {
    const search::Request& of = inputs->request;
    auto rules = ReadSearched(file, of.manifest, model_type);
    if (rules && of.options.policy.kv_replicate) {
      rules->policy.kv_replicate = of.options.policy.kv_replicate;
    }
    return rules;
  };
  out->rules_given = !target.rules.empty();
  out->target = target.name;
  out->mesh_path = target.mesh.file;
  out->model_path = target.model;
  out->manifest_path = target.manifest;
  out->naming = flags.naming;
  out->header_only = flags.cost.inputs.header_only;
  out->profile = flags.cost.settings["--profile"].empty()
                     ? std::string(request.settings.profile->name)
                     : flags.cost.settings["--profile"];
  Assume(flags, *out);
  return out;
}

ExitStatus PlanGivenRules(const SearchInputs& inputs, Findings& findings) {
  const search::Request& request = inputs.request;
  if (!inputs.rules_given) return kDone;
  auto rules = request.read({.extends = request.rules, .own = {}});
  if (!rules) return kDone;
  Mesh single;
  const auto add = [&](const std::string& axis) {
    if (!single.Find(axis)) single.axes.push_back({axis, 1, AxisType::kAuto});
  };
  const bool experts = request.model && request.model->experts;
  for (const auto& axis : cost::UsualAxes(*rules, experts, true)) add(axis);
  if (request.mesh) {
    for (const MeshAxis& axis : request.mesh->axes) add(axis.name);
  }
  single.devices = 1;
  const auto compiled = Compile(std::move(single), std::move(*rules),
                                request.manifest, request.options, findings);
  if (compiled == nullptr) return kFailed;
  findings.Append(PlanFindings(*compiled));
  return findings.HasErrors() ? kFound : kDone;
}

std::string SearchedRulesYaml(const search::RulesFile& file) {
  std::string text = ImportedFileYaml(file.own);
  if (file.extends.empty()) return text;
  const std::string line =
      "extends: [" + Join(file.extends, ", ", JsonString) + "]\n";
  constexpr std::string_view kFirstLine = "version: 1\n";
  return text.insert(text.find(kFirstLine) + kFirstLine.size(), line);
}

}  // namespace shardc::cli
