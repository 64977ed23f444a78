// Converts options to the requests of src/target. The files are read even if an
// option cannot be parsed, so that one run reports the errors of the options
// and of the files:
//
//   --devices x --rules builtin:lama  ->  both are reported, nothing is
//   compiled
#include "cli/inputs.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "model/option_value.h"
#include "plan/stage_units.h"
#include "schedule/schedules.h"
#include "source/finding.h"
#include "source/list.h"
#include "source/other_words.h"
#include "source/wording.h"
#include "target/choose.h"

namespace shardc::cli {
namespace {

// Parses a value that must be one of the names in `known`. Returns what `known`
// pairs with the name. If the value is none of the names, returns nullopt and
// adds a finding that suggests the name that was meant. The finding is placed
// at the value of `flag`, or has no place if `flag` is `mode`.
template <typename T>
std::optional<T> OneOf(std::string_view flag, const std::string& value,
                       std::initializer_list<std::pair<const char*, T>> known,
                       Findings& findings) {
  std::vector<std::string_view> names;
  for (const auto& [name, result] : known) {
    if (value == name) return result;
    names.emplace_back(name);
  }
  // Several options take a mode, so their finding cannot name one of them.
  const bool many = flag == "mode";
  RefuseWord(many ? Place{} : FlagPlace(flag, value), flag, value, names,
             findings);
  return std::nullopt;
}

std::optional<Policy> ParsePolicy(const InputFlags& flags, Findings& findings) {
  const size_t before = findings.errors();
  Policy policy;
  if (!flags.unmatched.empty()) {
    policy.unmatched =
        OneOf<UnmatchedPolicy>("--unmatched", flags.unmatched,
                               {{"error", UnmatchedPolicy::kError},
                                {"replicate", UnmatchedPolicy::kReplicate}},
                               findings);
  }
  if (!flags.illegal.empty()) {
    policy.illegal = OneOf<IllegalPolicy>("--illegal", flags.illegal,
                                          {{"error", IllegalPolicy::kError},
                                           {"drop", IllegalPolicy::kDrop},
                                           {"shrink", IllegalPolicy::kShrink},
                                           {"pad", IllegalPolicy::kPad}},
                                          findings);
  }
  if (!flags.min_size.empty()) {
    policy.min_size = ParseInteger("--min-size", flags.min_size, 0, findings);
  }
  if (!flags.compat.empty()) {
    policy.compat = OneOf<Compat>("--compat", flags.compat,
                                  {{"none", Compat::kNone},
                                   {"eformer", Compat::kEformer},
                                   {"fjformer", Compat::kFjformer}},
                                  findings);
  }
  if (flags.kv_replicate) policy.kv_replicate = true;
  if (findings.errors() > before) return std::nullopt;
  return policy;
}

// Parses an option whose value is a count. Returns nullopt if the option is not
// given. If the value is not an integer of at least 1, adds a finding and sets
// `good` to false.
std::optional<int64_t> ParseCount(std::string_view flag,
                                  const std::string& text, bool& good,
                                  Findings& findings) {
  if (text.empty()) return std::nullopt;
  const auto count = ParseInteger(flag, text, 1, findings);
  good = good && count.has_value();
  return count;
}

std::optional<int64_t> ParseDevices(const InputFlags& flags, bool& good,
                                    Findings& findings) {
  return ParseCount("--devices", flags.devices, good, findings);
}

std::optional<int64_t> ParseProcesses(const InputFlags& flags, bool& good,
                                      Findings& findings) {
  return ParseCount("--processes", flags.processes, good, findings);
}

ManifestOptions ManifestOptionsOf(const InputFlags& flags) {
  ManifestOptions options;
  options.header_only = flags.header_only;
  if (!flags.stdin_filename.empty()) options.stdin_name = flags.stdin_filename;
  return options;
}

// Converts the options of InputFlags. Invalid options are reported and left
// out.
OpenOptions OpenOptionsOf(const InputFlags& flags, const Target& target,
                          const Common& common, Findings& findings) {
  OpenOptions options;
  bool good = true;
  options.devices = ParseDevices(flags, good, findings);
  options.processes = ParseProcesses(flags, good, findings);
  // An invalid count would cause further errors in the mesh. The mesh is
  // therefore not read, and only the option is reported.
  if (!good) {
    options.mesh = Mesh{};
    options.processes.reset();
  }
  options.rules_boundary = RulesBoundary(target, flags.asked);
  options.manifest = ManifestOptionsOf(flags);
  options.policy = ParsePolicy(flags, findings).value_or(Policy{});
  options.modes =
      ParseModes(flags.modes, findings).value_or(std::vector<Mode>{});
  options.weights = {flags.trains, flags.asked.weights_dtype};
  options.threads = common.threads;
  options.held = flags.held;
  return options;
}

// Returns the findings. A finding may report that a file cannot be read. If the
// project names this file, the line that names it is added to the finding.
Findings WithNames(const Target& target, const Findings& findings) {
  Findings out;
  out.NoteReadsOf(findings);
  for (Finding finding : findings.all()) {
    const Place& place = finding.place;
    const bool of_file = finding.code == &code::kMissing ||
                         finding.code == &code::kNotRegular ||
                         finding.code == &code::kUnreadable;
    if (of_file && place.source != nullptr && !place.HasPosition()) {
      const auto named = target.named_at.find(place.source->name());
      if (named != target.named_at.end()) {
        finding.labels.push_back({named->second, "the project names it here"});
      }
    }
    out.Add(std::move(finding));
  }
  return out;
}

}  // namespace

Options MeshInputs(InputFlags& flags) {
  return Under(
      kInputsGroup,
      {{.name = "--mesh",
        .need = HelpNeed::kMost,
        .to = &flags.asked.mesh,
        .value = "FILE|AXES",
        .help = "mesh file, or axes such as dp:2,fsdp:-1,tp:4; also "
                "sizes of the default axes, 1,-1,1,1"},
       {.name = "--devices",
        .need = HelpNeed::kMost,
        .to = &flags.devices,
        .value = "N",
        .help = "number of devices, needed if an axis is -1"},
       {.name = "--processes",
        .to = &flags.processes,
        .value = "N",
        .help = "number of processes (hosts) that share the devices"}});
}

Option DeviceInput(std::string& number) {
  return {.name = "--device",
          .to = &number,
          .value = "N",
          .help = "device to show, by its number in the mesh's grid"};
}

std::optional<int64_t> ParseDevice(const std::string& number, const Mesh& mesh,
                                   Findings& findings) {
  const auto device = ParseInteger("--device", number, 0, findings);
  if (!device || *device < mesh.devices) return device;
  findings.Add(code::kNumber, FlagPlace("--device", number),
               "the mesh has no device " + number,
               "its devices are 0 to " + std::to_string(mesh.devices - 1));
  return std::nullopt;
}

Options RulesInputs(InputFlags& flags) {
  return Under(kInputsGroup,
               {{.name = "--rules",
                 .need = HelpNeed::kMost,
                 .to = &flags.asked.rules,
                 .value = "FILE",
                 .help = "rules file, builtin:PACK or auto; may be "
                         "repeated, rules of earlier files win",
                 .words = PackNames}});
}

Options ManifestInputs(InputFlags& flags) {
  return Under(
      kInputsGroup,
      {{.name = "--manifest",
        .need = HelpNeed::kMost,
        .to = &flags.asked.manifest,
        .value = "FILE",
        .help = "parameters of the model, as JSON or safetensors; "
                "also an index, a directory or a traced program; - "
                "is standard input"},
       {.name = "--stdin-filename",
        .to = &flags.stdin_filename,
        .value = "NAME",
        .help = "name of standard input in messages"},
       {.name = "--header-only",
        .to = &flags.header_only,
        .help =
            "do not compare safetensors headers with the size of the file"}});
}

Options ProjectInputs(InputFlags& flags) {
  return Under(
      kInputsGroup,
      {{.name = "--target",
        .need = HelpNeed::kMost,
        .to = &flags.asked.target,
        .value = "NAME",
        .help = "target of the project file"},
       {.name = "--project",
        .to = &flags.asked.project,
        .value = "FILE",
        .help = "project file (default: the nearest shardc.yaml upwards)"},
       {.name = "--no-project",
        .to = &flags.asked.no_project,
        .help = "use no project file"},
       {.name = "--allow-outside",
        .to = &flags.asked.allow_outside,
        .help = "let the project name files outside its repository"}});
}

Option IllegalInput(InputFlags& flags) {
  return {.name = "--illegal",
          .to = &flags.illegal,
          .value = "error|drop|shrink|pad",
          .help = "what to do about illegal specs"};
}

Options ModelInputs(InputFlags& flags, std::string_view help) {
  return Under(kInputsGroup,
               {{.name = "--model",
                 .need = HelpNeed::kMost,
                 .to = &flags.asked.model,
                 .value = "FILE",
                 .help = std::string(help)},
                {.name = "--families",
                 .to = &flags.asked.families,
                 .value = "DIR",
                 .help = "folder of further descriptions of model families, "
                         "which win over the bundled ones"},
                {.name = "--weights-dtype",
                 .to = &flags.asked.weights_dtype,
                 .value = "DTYPE|config",
                 .help = "dtype of the weights of --model, unquantised, or as "
                         "its quantization_config states (default: config, but "
                         "unquantised in training)"}});
}

Options AllInputs(InputFlags& flags) {
  Options options = MeshInputs(flags);
  Append(options, RulesInputs(flags));
  Append(options, ManifestInputs(flags));
  Append(options, ModelInputs(flags));
  Append(options, ProjectInputs(flags));
  Append(
      options,
      Under(kCompilingGroup,
            {{.name = "--modes",
              .to = &flags.modes,
              .value = "MODE,...",
              .help = "modes to compile, such as train,decode (default: all)",
              .several = Several::kCommas,
              .words = ModeNames},
             {.name = "--unmatched",
              .to = &flags.unmatched,
              .value = "error|replicate",
              .help = "what to do about parameters that no rule matches"},
             IllegalInput(flags),
             {.name = "--min-size",
              .to = &flags.min_size,
              .value = "N",
              .help = "parameters with fewer elements are replicated"},
             {.name = "--kv-replicate",
              .to = &flags.kv_replicate,
              .help = "replicate KV heads that are fewer than the devices of "
                      "their axes"},
             {.name = "--compat",
              .to = &flags.compat,
              .value = "none|eformer|fjformer",
              .help = "follow a reference system exactly"}}));
  return options;
}

void TakeSeveralTargets(Options& options, InputFlags& flags,
                        std::string_view by_default) {
  for (Option& option : options) {
    if (option.name != "--target") continue;
    option.to = &flags.targets;
    option.value = "NAMES";
    option.help =
        "targets of the project file (default: " + std::string(by_default) +
        ")";
    option.several = Several::kCommas;
  }
}

std::optional<Mesh> LoadMesh(const InputFlags& flags, const Target& target,
                             Findings& findings) {
  bool good = true;
  const auto devices = ParseDevices(flags, good, findings);
  const auto processes = ParseProcesses(flags, good, findings);
  if (!good) return std::nullopt;
  auto mesh = OpenMesh(target.mesh, devices, findings);
  if (!mesh || !processes) return mesh;
  if (!SetProcesses(*mesh, *processes, findings)) return std::nullopt;
  return mesh;
}

std::optional<Mesh> LoadMeshAlone(const InputFlags& flags, Findings& findings) {
  if (!flags.asked.mesh.empty()) {
    Target target;
    target.mesh = MeshInput{flags.asked.mesh, {}, {}, {}};
    return LoadMesh(flags, target, findings);
  }
  const auto target = ChooseTarget(flags.asked, findings);
  return target ? LoadMesh(flags, *target, findings) : std::nullopt;
}

bool RefuseInputs(const InputFlags& flags, std::string_view because,
                  Findings& findings) {
  const auto first = [](const Strings& all) {
    return all.empty() ? std::string() : all.front();
  };
  const TargetRequest& asked = flags.asked;
  const std::initializer_list<std::pair<std::string_view, std::string>> given =
      {{"--mesh", asked.mesh},
       {"--devices", flags.devices},
       {"--processes", flags.processes},
       {"--rules", first(asked.rules)},
       {"--manifest", asked.manifest},
       {"--families", asked.families},
       {"--weights-dtype", asked.weights_dtype},
       {"--target", asked.target},
       {"--project", asked.project},
       {"--modes", first(flags.modes)},
       {"--unmatched", flags.unmatched},
       {"--illegal", flags.illegal},
       {"--min-size", flags.min_size},
       {"--compat", flags.compat},
       {"--kv-replicate", flags.kv_replicate ? "true" : ""}};
  for (const auto& [flag, value] : given) {
    if (value.empty()) continue;
    findings.Add(
        code::kUsage, FlagPlace(flag, value),
        std::string(because) + ", so `" + std::string(flag) + "` has no effect",
        "leave out `" + std::string(flag) + "`");
  }
  return !findings.HasErrors();
}

std::optional<Target> TargetOrPlan(const InputFlags& flags,
                                   const std::string& plan,
                                   Findings& findings) {
  if (plan.empty()) return ChooseTarget(flags.asked, findings);
  if (!RefuseInputs(flags, "the plan is that of `--plan`", findings)) {
    return std::nullopt;
  }
  Target target;
  target.model = flags.asked.model;
  return target;
}

std::optional<Manifest> LoadManifest(const InputFlags& flags,
                                     const std::string& path,
                                     Findings& findings) {
  return OpenManifest(path, ManifestOptionsOf(flags), findings);
}

std::optional<OpenedResolver> LoadResolver(const InputFlags& flags,
                                           Findings& findings) {
  const auto target = ChooseForResolver(flags.asked, findings);
  if (!target) return std::nullopt;
  bool good = true;
  auto devices = ParseDevices(flags, good, findings);
  const auto processes = ParseProcesses(flags, good, findings);
  const auto policy = ParsePolicy(flags, findings);
  if (!good || !policy) return std::nullopt;
  if (!IsNamed(target->mesh)) devices.reset();
  auto opened = OpenResolver(*target, devices, findings, nullptr,
                             RulesBoundary(*target, flags.asked));
  if (opened && opened->has_mesh && processes) {
    // No spec depends on the number of processes. It is only checked that this
    // number divides the number of devices.
    Mesh mesh = opened->resolver.mesh();
    if (!SetProcesses(mesh, *processes, findings)) return std::nullopt;
  }
  if (opened && policy->illegal) opened->policy.illegal = policy->illegal;
  return opened;
}

std::optional<Opened> LoadTarget(const InputFlags& flags, const Target& target,
                                 const Common& common, Findings& findings) {
  if (!IsComplete(target, {}, findings)) return std::nullopt;
  const size_t before = findings.errors();
  const OpenOptions options = OpenOptionsOf(flags, target, common, findings);
  Findings own;
  auto opened = OpenTarget(target, options, own);
  findings.Append(WithNames(target, own));
  if (findings.errors() > before) return std::nullopt;
  return opened;
}

std::unique_ptr<const Compiled> LoadAndCompile(
    const InputFlags& flags, const Target& target, const Common& common,
    Findings& findings, std::optional<ModelConfig>* model) {
  auto opened = LoadTarget(flags, target, common, findings);
  if (!opened) return nullptr;
  if (model != nullptr) *model = opened->model;
  return CompileTarget(std::move(*opened), findings);
}

Strings ModeNames() {
  Strings names;
  for (const Mode mode : kAllModes) names.emplace_back(ModeName(mode));
  return names;
}

Option ModeOption(std::string* to) {
  return {.name = "--mode",
          .need = HelpNeed::kOften,
          .to = to,
          .value = "MODE",
          .help = "train, prefill, decode or insert (default: train)",
          .words = ModeNames};
}

std::optional<std::vector<Mode>> ParseModes(const Strings& given,
                                            Findings& findings) {
  std::vector<Mode> modes;
  for (const std::string& text : SplitList(given)) {
    const auto mode = ParseModeFlag(text, findings);
    if (!mode) return std::nullopt;
    modes.push_back(*mode);
  }
  return modes;
}

std::optional<Mode> ParseModeFlag(const std::string& text, Findings& findings) {
  if (const auto mode = ParseMode(text)) return mode;
  return OneOf<Mode>("mode", text,
                     {{"train", Mode::kTrain},
                      {"prefill", Mode::kPrefill},
                      {"decode", Mode::kDecode},
                      {"insert", Mode::kInsert}},
                     findings);
}

bool CheckMode(std::span<const Mode> planned, Mode mode, Findings& findings) {
  if (mode == Mode::kTrain || IsAmong(mode, planned)) {
    return true;
  }
  findings.Add(code::kUsage, {},
               "the plan has no mode `" + std::string(ModeName(mode)) + "`",
               "compile the plan with `--modes`");
  return false;
}

// Parses `--attention`: items KEY=N separated by commas, each key at most once.
// A misspelt key is reported with the nearest key:
//
//   heads=32,kv_heads=8  ->  {32, 8}     head=2  ->  did you mean `heads=N`?

namespace {

constexpr int64_t kLargest = int64_t{1} << 31;

// Returns the option of a size that belongs to a step: `batch` -> `--batch`;
// empty for another key.
std::string_view OptionOfStep(std::string_view key) {
  if (key == "batch") return "--batch";
  if (key == "q_len" || key == "seq") return "--seq";
  return key == "kv_len" ? "--kv-len" : "";
}

}  // namespace

std::optional<AttentionFlag> ParseAttention(const std::string& text,
                                            Findings& findings) {
  AttentionFlag out;
  const std::array<std::pair<std::string, std::optional<int64_t>*>, 7> keys = {
      {{"heads", &out.heads},
       {"kv_heads", &out.kv_heads},
       {"head_dim", &out.head_dim},
       {"value_dim", &out.value_dim},
       {"window", &out.window},
       {"latent", &out.latent},
       {"rope_dim", &out.rope_dim}}};
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, comma - begin);
    begin = comma + 1;
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    const auto at = std::find_if(keys.begin(), keys.end(),
                                 [&](const auto& k) { return k.first == key; });
    if (equals == std::string::npos || at == keys.end()) {
      std::vector<std::string> known;
      for (const auto& [name, value] : keys) known.push_back(name);
      const auto nearest = Nearest(key, known);
      const std::string_view option = OptionOfStep(key);
      if (!option.empty()) {
        findings.Add(code::kUsage, FlagPlace("--attention", text),
                     "`--attention` has the sizes of a head, and not of a step",
                     "write `" + std::string(option) + " N` for `" + key + "`");
        return std::nullopt;
      }
      findings.Add(code::kUsage, {},
                   "`" + item + "` in `--attention` is not a size",
                   nearest ? "did you mean `" + *nearest + "=N`?"
                           : "give heads=32,kv_heads=8,head_dim=128");
      return std::nullopt;
    }
    if (*at->second) {
      findings.Add(code::kUsage, {},
                   "`" + key + "` occurs twice in `--attention`");
      return std::nullopt;
    }
    const auto value = ParseInteger("--attention " + key,
                                    item.substr(equals + 1), 1, findings);
    if (!value) return std::nullopt;
    if (*value > kLargest) {
      findings.Add(code::kUsage, {},
                   "`" + item + "` in `--attention` is larger than " +
                       CountText(kLargest));
      return std::nullopt;
    }
    *at->second = *value;
  }
  return out;
}

std::optional<size_t> FindParam(Texts names, char separator,
                                const std::string& name, Findings& findings) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return i;
  }
  std::string swapped = name;
  for (char& c : swapped) {
    if (separator != 0 && (c == '/' || c == '.')) c = separator;
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == swapped) return i;
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  std::string help = DidYouMean(name, known, "");
  // If the name is a part of known names, such as `q_proj`, suggest the first
  // of them.
  for (size_t i = 0; i < known.size() && help.empty(); ++i) {
    if (known[i].find(name) == std::string_view::npos) continue;
    help = "did you mean `" + std::string(known[i]) + "`?";
  }
  if (help.empty()) {
    help = "`shardc show manifest --manifest FILE` lists the names";
  }
  findings.Add(code::kUsage, {}, "the manifest has no parameter `" + name + "`",
               std::move(help));
  return std::nullopt;
}

// Checks that a format accepts the given options. Names of options are compared
// as complete words: `--axis` is not in the list `--axis-names --form`.

bool TakesFlags(std::string_view name, std::string_view flags,
                std::span<const std::pair<std::string_view, bool>> given,
                Findings& findings) {
  const std::string own = " " + std::string(flags) + " ";
  for (const auto& [flag, set] : given) {
    if (!set || own.find(" " + std::string(flag) + " ") != std::string::npos) {
      continue;
    }
    findings.Add(code::kUsage, {},
                 "`" + std::string(flag) + "` does not apply to the format `" +
                     std::string(name) + "`");
    return false;
  }
  return true;
}

namespace {

// Makes or reads the table of a schedule. An argument that contains none of
// `/`, `\` and `.` is the name of a built-in schedule:
//
//   zbv  ->  made for the sizes;  zbv.csv, ./zbv  ->  read from the file

constexpr int64_t kMostSize = 1 << 20;

}  // namespace

bool IsScheduleFile(const std::string& name) {
  return name.find_first_of("./\\") != std::string::npos;
}

std::optional<int32_t> ScheduleSize(std::string_view flag,
                                    const std::string& text,
                                    Findings& findings) {
  if (text.empty()) return std::nullopt;
  const auto value = ParseInteger(flag, text, 1, findings);
  if (!value) return std::nullopt;
  if (*value > kMostSize) {
    findings.Add(
        code::kLimit, FlagPlace(flag, text),
        "`" + std::string(flag) + "` is more than " + CountText(kMostSize));
    return std::nullopt;
  }
  return static_cast<int32_t>(*value);
}

std::optional<schedule::Table> ScheduleTable(const ScheduleChoice& choice,
                                             Findings& findings) {
  const bool file = IsScheduleFile(choice.name);
  const bool known = !file && schedule::FindSchedule(choice.name) != nullptr;
  for (const auto& [flag, size] :
       {std::pair{"--ranks", choice.ranks},
        std::pair{"--microbatches", choice.microbatches}}) {
    if (size || !known) continue;
    findings.Add(code::kUsage, {}, "`" + std::string(flag) + "` is missing",
                 choice.flag == "NAME"
                     ? "write `shardc schedule " + choice.name +
                           " --ranks 4 --microbatches 8`"
                     : "add `" + std::string(flag) + " 8`");
    return std::nullopt;
  }
  ScheduleRequest request{choice.name,
                          file,
                          choice.ranks,
                          choice.virtual_stages,
                          choice.microbatches,
                          FlagPlace(choice.flag, choice.name),
                          {},
                          false};
  if (choice.virtual_stages) {
    request.virtual_place =
        FlagPlace("--virtual", std::to_string(*choice.virtual_stages));
  }
  return MakeScheduleTable(request, findings);
}

int StageStatus(const Findings& findings) {
  const auto codes = StageCodes();
  for (const Finding& finding : findings.all()) {
    if (finding.level == Level::kError && !IsAmong(finding.code, codes)) {
      return kFailed;
    }
  }
  return kFound;
}

Strings ScheduleNames() {
  Strings out;
  for (const schedule::Schedule& one : schedule::Schedules()) {
    out.emplace_back(one.name);
  }
  return out;
}

LintSettings ProjectLintSettings(const TargetRequest& asked,
                                 Findings& findings) {
  Findings ignored;
  const auto project = OpenProject(asked, ignored);
  findings.NoteReadsOf(ignored);
  return project ? project->lint : LintSettings{};
}

}  // namespace shardc::cli
