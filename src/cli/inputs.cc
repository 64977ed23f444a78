// Flags, the project's target and files to what a command works on: a target
// is chosen, flags are laid over it, and each input is read by its own room.
// What a plan cannot do without is told in one finding:
//
//   --mesh dp:2 alone  ->  no rules and no manifest given
#include "cli/inputs.h"

#include <filesystem>
#include <thread>

#include "cli/builtin_packs.h"
#include "cli/output.h"
#include "importers/manifest.h"
#include "match/match.h"
#include "parse/manifest.h"
#include "parse/mesh.h"
#include "parse/project.h"
#include "parse/rules.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

Place FlagPlace(std::string_view flag, const std::string& value) {
  return {MakeSource(std::string(flag), value), 0, value.size()};
}

// A value out of a few names, or a finding with the nearest of them.
template <typename T>
std::optional<T> OneOf(std::string_view flag, const std::string& value,
                       std::initializer_list<std::pair<const char*, T>> known,
                       Findings& findings) {
  std::vector<std::string> names;
  std::string list;
  for (const auto& [name, result] : known) {
    if (value == name) return result;
    names.emplace_back(name);
    list += (list.empty() ? "" : ", ") + std::string(name);
  }
  findings.Add(code::kUsage, FlagPlace(flag, value),
               "`" + value + "` is none of: " + list, DidYouMean(value, names));
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
                                           {"shrink", IllegalPolicy::kShrink}},
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
  if (findings.errors() > before) return std::nullopt;
  return policy;
}

std::string Folder(const std::string& file) {
  const auto folder = std::filesystem::path(file).parent_path();
  return folder.empty() ? "." : folder.string();
}

// Names each rule's file as the plan shows it: relative to the project, else
// to the folder of the first file given, wherever the program was started.
void NameSources(RuleSet& rules, const std::vector<std::string>& files,
                 const std::string& project_dir) {
  std::string base = project_dir;
  for (const std::string& file : files) {
    if (base.empty() && !file.starts_with("builtin:")) base = Folder(file);
  }
  std::error_code error;
  const auto root = std::filesystem::absolute(base, error).lexically_normal();
  for (Rule& rule : rules.rules) {
    if (rule.place.source == nullptr) continue;
    const std::string& name = rule.place.source->name();
    rule.source_name = name.starts_with("builtin:") || name == "-"
                           ? name
                           : std::filesystem::absolute(name, error)
                                 .lexically_normal()
                                 .lexically_relative(root)
                                 .generic_string();
  }
}

bool NamesAnInput(const InputFlags& flags) {
  return !flags.mesh.empty() || !flags.rules.empty() || !flags.manifest.empty();
}

void LayFlagsOver(const InputFlags& flags, Target& target) {
  if (!flags.mesh.empty()) target.mesh = MeshInput{flags.mesh, {}, {}};
  if (!flags.rules.empty()) target.rules = flags.rules;
  if (!flags.manifest.empty()) target.manifest = flags.manifest;
  if (!flags.model.empty()) target.model = flags.model;
}

std::string TargetNames(const Project& project) {
  std::string names;
  for (const Target& target : project.targets) {
    names += (names.empty() ? "`" : ", `") + target.name + "`";
  }
  return names;
}

}  // namespace

Options MeshInputs(InputFlags& flags) {
  return {{.name = "--mesh",
           .to = &flags.mesh,
           .value = "FILE|AXES",
           .help = "mesh file, or axes such as dp:2,fsdp:-1,tp:4"},
          {.name = "--devices",
           .to = &flags.devices,
           .value = "N",
           .help = "number of devices, needed where an axis is -1"}};
}

Options RulesInputs(InputFlags& flags) {
  return {{.name = "--rules",
           .to = &flags.rules,
           .value = "FILE",
           .help = "rules file, builtin:PACK or auto; may be repeated, earlier "
                   "files win",
           .words = PackNames()}};
}

Options ManifestInputs(InputFlags& flags) {
  return {{.name = "--manifest",
           .to = &flags.manifest,
           .value = "FILE",
           .help = "parameters: JSON, safetensors, an index or a directory; - "
                   "is standard input"},
          {.name = "--stdin-filename",
           .to = &flags.stdin_filename,
           .value = "NAME",
           .help = "what messages call standard input"},
          {.name = "--header-only",
           .to = &flags.header_only,
           .help = "do not check safetensors headers against the file's size"}};
}

Options ProjectInputs(InputFlags& flags) {
  return {{.name = "--target",
           .to = &flags.target,
           .value = "NAME",
           .help = "a target of the project file"},
          {.name = "--project",
           .to = &flags.project,
           .value = "FILE",
           .help = "project file (default: the nearest shardc.yaml upwards)"},
          {.name = "--no-project",
           .to = &flags.no_project,
           .help = "use no project file"}};
}

Options AllInputs(InputFlags& flags) {
  Options options = MeshInputs(flags);
  Append(options, RulesInputs(flags));
  Append(options, ManifestInputs(flags));
  Append(options,
         {{.name = "--model",
           .to = &flags.model,
           .value = "FILE",
           .help = "the model's config.json"},
          {.name = "--modes",
           .to = &flags.modes,
           .value = "MODES",
           .help = "modes to compile, such as train,decode (default: all)",
           .words = ModeNames()}});
  Append(options, ProjectInputs(flags));
  Append(options, {{.name = "--unmatched",
                    .to = &flags.unmatched,
                    .value = "error|replicate",
                    .help = "for parameters that no rule matches"},
                   {.name = "--illegal",
                    .to = &flags.illegal,
                    .value = "error|drop|shrink",
                    .help = "for specs that are not legal"},
                   {.name = "--min-size",
                    .to = &flags.min_size,
                    .value = "N",
                    .help = "parameters with fewer elements are replicated"},
                   {.name = "--compat",
                    .to = &flags.compat,
                    .value = "none|eformer|fjformer",
                    .help = "follow a reference system to the letter"}});
  return options;
}

std::optional<Project> LoadProject(const InputFlags& flags,
                                   Findings& findings) {
  if (flags.no_project) return std::nullopt;
  if (!flags.project.empty()) return ReadProject(flags.project, findings);
  std::error_code error;
  const auto here = std::filesystem::current_path(error);
  const auto path = FindProject(error ? "." : here.string());
  if (!path) return std::nullopt;
  // Shown as the user would write it, not with this machine's folders.
  const std::string shown =
      std::filesystem::proximate(*path, here, error).string();
  return ReadProject(error ? *path : shown, findings);
}

std::optional<Target> ChooseTarget(const InputFlags& flags,
                                   Findings& findings) {
  Target target;
  const bool asked = !flags.target.empty() || !flags.project.empty();
  if (asked || !NamesAnInput(flags)) {
    const size_t before = findings.errors();
    const auto project = LoadProject(flags, findings);
    if (findings.errors() > before) return std::nullopt;
    if (!project && !flags.target.empty()) {
      findings.Add(code::kUsage, FlagPlace("--target", flags.target),
                   "there is no project file to take the target from",
                   "run where a `shardc.yaml` stands here or above, or name "
                   "it with `--project`");
      return std::nullopt;
    }
    if (project) {
      const Target* chosen = nullptr;
      for (const Target& known : project->targets) {
        if (known.name == flags.target ||
            (flags.target.empty() && project->targets.size() == 1)) {
          chosen = &known;
        }
      }
      if (chosen == nullptr) {
        findings.Add(
            code::kUsage, {},
            flags.target.empty()
                ? "the project has " +
                      Counted(static_cast<int64_t>(project->targets.size()),
                              "target") +
                      " and none is chosen"
                : "the project has no target `" + flags.target + "`",
            "choose with `--target`: " + TargetNames(*project));
        return std::nullopt;
      }
      target = *chosen;
      target.project_dir = Folder(project->path);
    }
  }
  LayFlagsOver(flags, target);
  return target;
}

std::optional<Mesh> LoadMesh(const InputFlags& flags, const Target& target,
                             Findings& findings) {
  std::optional<int64_t> devices;
  if (!flags.devices.empty()) {
    devices = ParseInteger("--devices", flags.devices, 1, findings);
    if (!devices) return std::nullopt;
  }
  if (!flags.mesh.empty()) return ReadMesh(flags.mesh, devices, findings);
  const MeshInput& mesh = target.mesh;
  if (mesh.file.empty() && mesh.text.empty() && !mesh.inline_place) {
    findings.Add(code::kUsage, {}, "no mesh is given",
                 "write `--mesh FILE` or `--mesh dp:2,tp:4`");
    return std::nullopt;
  }
  return ReadMesh(mesh, devices, findings);
}

std::optional<Manifest> LoadManifest(const InputFlags& flags,
                                     const std::string& path,
                                     Findings& findings) {
  if (path.empty()) {
    findings.Add(code::kUsage, {}, "no manifest is given",
                 "write `--manifest FILE`: shardc's JSON, safetensors, an "
                 "index or a directory of them");
    return std::nullopt;
  }
  ManifestOptions options;
  options.header_only = flags.header_only;
  if (!flags.stdin_filename.empty()) {
    options.stdin_name = flags.stdin_filename;
  }
  auto manifest = ReadManifest(path, ParseManifest, options, findings);
  if (!manifest) return std::nullopt;
  const size_t before = findings.errors();
  SettleSeparator(*manifest, findings);
  if (findings.errors() > before) return std::nullopt;
  return manifest;
}

std::optional<RuleSet> LoadRules(const std::vector<std::string>& files,
                                 const std::string& project_dir,
                                 const Manifest* manifest,
                                 const std::string& model_type,
                                 Findings& findings) {
  if (files.empty()) {
    findings.Add(code::kUsage, {}, "no rules are given",
                 "write `--rules FILE`, `--rules builtin:llama` or `--rules "
                 "auto`, which picks a pack by the names");
    return std::nullopt;
  }
  std::vector<std::string> named = files;
  for (std::string& file : named) {
    if (file != "auto") continue;
    const auto pack =
        manifest == nullptr ? std::nullopt : PickPack(*manifest, model_type);
    if (!pack) {
      findings.Add(code::kUsage, FlagPlace("--rules", file),
                   "no pack knows the manifest's names",
                   "write rules of your own; `shardc rules` lists the packs");
      return std::nullopt;
    }
    file = *pack;
  }
  const char separator = manifest == nullptr ? '/' : manifest->separator;
  for (const std::string& file : named) {
    if (!file.starts_with("builtin:") || FindPack(file, separator)) continue;
    std::vector<std::string> packs;
    for (const BuiltinPack& pack : BuiltinPacks()) {
      packs.push_back(pack.FullName());
      packs.push_back("builtin:" + pack.name);
    }
    findings.Add(code::kMissing, FlagPlace("--rules", file),
                 "there is no rule pack `" + file + "`",
                 DidYouMean(file, packs, "`shardc rules` lists the packs"));
    return std::nullopt;
  }
  RuleSet broken;
  auto rules = ReadRules(
      named,
      [separator](std::string_view name) { return FindPack(name, separator); },
      findings, &broken);
  if (rules) {
    NameSources(*rules, named, project_dir);
  } else {
    CheckPatterns(broken, findings);
  }
  return rules;
}

void CheckPatterns(const RuleSet& rules, Findings& findings) {
  std::vector<Pattern> patterns;
  for (const Rule& rule : rules.rules) {
    patterns.push_back({rule.match, rule.match_place, rule.separator});
  }
  Matcher::Compile(patterns, findings);
}

namespace {

// What a plan cannot do without, told in one finding.
bool NamesAll(const Target& target, Findings& findings) {
  std::vector<std::string> missing;
  if (target.mesh.file.empty() && target.mesh.text.empty() &&
      !target.mesh.inline_place) {
    missing.emplace_back("mesh");
  }
  if (target.rules.empty()) missing.emplace_back("rules");
  if (target.manifest.empty()) missing.emplace_back("manifest");
  if (missing.empty()) return true;
  std::string list;
  for (size_t i = 0; i < missing.size(); ++i) {
    list += i == 0 ? "" : i + 1 == missing.size() ? " and no " : ", no ";
    list += missing[i];
  }
  findings.Add(code::kUsage, {}, "no " + list + " given",
               "write `--mesh dp:2,tp:4 --rules auto --manifest FILE`, or a "
               "target in `shardc.yaml`");
  return false;
}

}  // namespace

std::optional<Loaded> LoadTarget(const InputFlags& flags, const Target& target,
                                 const Common& common, Findings& findings) {
  if (!NamesAll(target, findings)) return std::nullopt;
  const size_t before = findings.errors();
  Loaded loaded;
  loaded.target = target;
  auto mesh = LoadMesh(flags, target, findings);
  auto manifest = LoadManifest(flags, target.manifest, findings);
  if (!target.model.empty()) {
    loaded.model = ReadModelConfig(target.model, findings);
  }
  auto rules = LoadRules(
      target.rules, target.project_dir, manifest ? &*manifest : nullptr,
      loaded.model ? loaded.model->model_type : "", findings);
  auto policy = ParsePolicy(flags, findings);
  auto modes = ParseModes(flags.modes, findings);
  if (findings.errors() > before || !mesh || !manifest || !rules || !policy ||
      !modes) {
    return std::nullopt;
  }
  loaded.mesh = std::move(*mesh);
  loaded.manifest = std::move(*manifest);
  loaded.rules = std::move(*rules);
  loaded.options.policy = *policy;
  loaded.options.weight_decay_exclude = target.weight_decay_exclude;
  if (!modes->empty()) {
    loaded.options.modes = *modes;
  } else if (!target.modes.empty()) {
    loaded.options.modes = target.modes;
  }
  loaded.options.threads =
      common.threads > 0
          ? common.threads
          : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return loaded;
}

std::unique_ptr<const Compiled> LoadAndCompile(
    const InputFlags& flags, const Target& target, const Common& common,
    Findings& findings, std::optional<ModelConfig>* model) {
  auto loaded = LoadTarget(flags, target, common, findings);
  if (!loaded) return nullptr;
  if (model != nullptr) *model = std::move(loaded->model);
  return Compile(std::move(loaded->mesh), std::move(loaded->rules),
                 std::move(loaded->manifest), loaded->options, findings);
}

Strings ModeNames() {
  Strings names;
  for (const Mode mode : kAllModes) names.emplace_back(ModeName(mode));
  return names;
}

std::optional<std::vector<Mode>> ParseModes(const std::string& text,
                                            Findings& findings) {
  std::vector<Mode> modes;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const auto mode =
        ParseModeFlag(text.substr(begin, comma - begin), findings);
    if (!mode) return std::nullopt;
    modes.push_back(*mode);
    begin = comma + 1;
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

}  // namespace shardc::cli
