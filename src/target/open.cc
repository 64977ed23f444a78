// Reads the inputs of a target: its mesh, manifest and rules. The rules may be
// a pack: a rules file that is embedded in the library. Many packs exist twice,
// for parameter names of Flax (builtin:llama/flax) and of Hugging Face
// (builtin:llama/hf). For builtin:llama, the names in the manifest decide
// between the two. For `auto`, these names also decide which pack is used. For
// example, `model.layers.0.self_attn...` and `gate_proj` lead to
// builtin:llama/hf.
//
// A plan must not depend on the working directory. The path of a rules file is
// therefore stored relative to the project. Without a project, it is relative
// to the folder of the first rules file.
#include "target/open.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "families/families.h"
#include "match/match.h"
#include "model/name.h"
#include "model/not_known.h"
#include "parse/config_fields.h"
#include "parse/config_name.h"
#include "parse/manifest.h"
#include "parse/mesh.h"
#include "parse/project.h"
#include "parse/rules.h"
#include "plan/compile.h"
#include "plan/kv_layout.h"
#include "plan/mesh_purposes.h"
#include "plan/planned_stages.h"
#include "program/program.h"
#include "program/read.h"
#include "resolve/resolve.h"
#include "roles/described.h"
#include "source/config_codes.h"
#include "source/file.h"
#include "source/list.h"
#include "source/process.h"
#include "source/wording.h"
#include "target/choose.h"
#include "target/from_config.h"

namespace shardc {
namespace {

Place RulesPlace(const std::string& file) {
  return {MakeSource("--rules", file), 0, file.size()};
}

std::string Folder(const std::string& file) {
  const auto folder = std::filesystem::path(file).parent_path();
  return folder.empty() ? "." : folder.string();
}

// Sets the file name of each rule to the name that the plan prints: its path
// relative to the project. Without a project, the path is relative to the
// folder of the first file that is not a pack. Packs and `-` keep their names.
void NameSources(RuleSet& rules, const std::vector<std::string>& files,
                 const std::string& project_dir) {
  std::string base = project_dir;
  for (const std::string& file : files) {
    if (base.empty() && !IsPackName(file)) base = Folder(file);
  }
  std::error_code error;
  const auto root = std::filesystem::absolute(base, error).lexically_normal();
  for (Rule& rule : rules.rules) {
    if (rule.place.source == nullptr) continue;
    const std::string& name = rule.place.source->name();
    rule.source_name = IsPackName(name) || name == "-"
                           ? name
                           : std::filesystem::absolute(name, error)
                                 .lexically_normal()
                                 .lexically_relative(root)
                                 .generic_string();
  }
}

// Returns the full name of the pack that `auto` selects. If no pack fits, adds
// a finding and returns nullopt.
std::optional<std::string> PackForAuto(const Manifest* manifest,
                                       const std::string& model_type,
                                       Findings& findings) {
  if (manifest == nullptr) {
    findings.Add(
        code::kUsage, RulesPlace("auto"),
        "`auto` chooses a pack by the names of a manifest, and none is "
        "given",
        "name the pack, such as `builtin:llama`; `shardc show rules` lists "
        "them");
    return std::nullopt;
  }
  auto pack = PickPack(*manifest, model_type);
  if (!pack) {
    // The finding suggests the pack for Flax if `/` separates the parts of the
    // names, and the pack for Hugging Face otherwise.
    const bool flax = manifest->separator == '/';
    findings.Add(
        code::kUsage, RulesPlace("auto"), "no pack knows the manifest's names",
        "`shardc suggest` proposes rules for these names: run it with the same "
        "`--mesh`, `--manifest`, `--program` and `--model`, and `-o "
        "rules.yaml`; a pack to "
        "start from is printed by `shardc show rules --rules builtin:llama/" +
            std::string(flax ? "flax" : "hf") + " --format yaml`");
  }
  return pack;
}

// Returns whether every name that begins with `builtin:` is the name of a pack.
// Reports the first name that is not.
bool PacksExist(const std::vector<std::string>& names, std::string_view naming,
                Findings& findings) {
  for (const std::string& name : names) {
    if (!IsPackName(name) || FindPack(name, naming)) continue;
    if (const SourceRef other = FindPack(name, "")) {
      findings.Add(code::kReference, RulesPlace(name),
                   "`" + name + "` has no rules for " +
                       (naming == "hf" ? "Hugging Face" : "Flax") +
                       " names, which the manifest has",
                   "if its rules fit these names nevertheless, write `" +
                       other->name() +
                       "`; `shardc suggest` proposes rules for any names");
      return false;
    }
    std::vector<std::string> packs;
    for (const BuiltinPack& pack : BuiltinPacks()) {
      packs.push_back(pack.FullName());
      packs.push_back("builtin:" + pack.name);
    }
    findings.Add(
        code::kReference, RulesPlace(name),
        "there is no rule pack `" + name + "`",
        DidYouMean(name, packs, "`shardc show rules` lists the packs"));
    return false;
  }
  return true;
}

// Computes the deployment of the configuration that an input names.
std::optional<systems::Deployment> DeployNamed(const std::string& name,
                                               Findings& findings) {
  const auto origin = ParseConfigName(name);
  if (!origin) {
    findings.Add(code::kUsage, {}, ShortQuote(name) + " names no configuration",
                 "write `config:SYSTEM:FILE`");
    return std::nullopt;
  }
  Findings own;
  auto out = DeployFile(*origin, false, own);
  const bool good = !own.HasErrors();
  findings.NoteReadsOf(own);
  // What the system does silently is a finding of `check`.
  for (const Finding& finding : own.all()) {
    if (finding.level == Level::kError) findings.Add(finding);
  }
  return good ? std::move(out) : std::nullopt;
}

// Returns the path of the config.json of a configuration; empty if it has none.
std::string ConfigModel(const std::string& name) {
  Findings ignored;
  const auto deployment = DeployNamed(name, ignored);
  return deployment ? deployment->model_path : "";
}

}  // namespace

bool IsNamed(const MeshInput& input) {
  return !input.file.empty() || !input.text.empty() ||
         input.inline_place.has_value();
}

Place MeshPlace(const MeshInput& mesh) {
  if (mesh.inline_place) return {mesh.inline_place->source};
  if (mesh.text_place) return *mesh.text_place;
  std::error_code error;
  if (!mesh.file.empty() && std::filesystem::exists(mesh.file, error)) {
    return {MakeSource(mesh.file, "")};
  }
  return {MakeSource("--mesh", mesh.text.empty() ? mesh.file : mesh.text)};
}

std::optional<Mesh> OpenMesh(const MeshInput& input,
                             std::optional<int64_t> devices, Findings& findings,
                             const FileTexts* texts) {
  if (IsConfigName(input.file)) {
    const auto deployment = DeployNamed(input.file, findings);
    if (!deployment || !deployment->mesh) return std::nullopt;
    if (devices && *devices != deployment->world) {
      findings.Add(
          code::kDeviceCount,
          {MakeSource("--devices", std::to_string(*devices))},
          "the configuration has " + Counted(deployment->world, "device"),
          "give `devices` inside of `from`");
      return std::nullopt;
    }
    return deployment->mesh;
  }
  if (!IsNamed(input)) {
    findings.Add(code::kUsage, {}, "no mesh is given",
                 "write `--mesh FILE` or `--mesh dp:2,tp:4`");
    return std::nullopt;
  }
  return ReadMesh(input, devices, findings, texts);
}

bool SetProcesses(Mesh& mesh, int64_t processes, Findings& findings) {
  if (mesh.devices % processes == 0) {
    mesh.processes = processes;
    return true;
  }
  const std::string text = std::to_string(processes);
  findings.Add(code::kDeviceCount,
               {MakeSource("--processes", text), 0, text.size()},
               CountText(mesh.devices) + " devices cannot be divided among " +
                   CountText(processes) + " processes");
  return false;
}

std::optional<Manifest> OpenManifest(const std::string& path,
                                     const ManifestOptions& options,
                                     Findings& findings, ManifestCache* cache) {
  if (path.empty()) {
    findings.Add(code::kUsage, {}, "no manifest is given",
                 "write `--manifest FILE`: shardc's JSON, safetensors, an "
                 "index or a directory of them");
    return std::nullopt;
  }
  if (IsConfigName(path)) {
    auto deployment = DeployNamed(path, findings);
    if (!deployment) return std::nullopt;
    if (!deployment->manifest) {
      findings.Add(code::kConfigUndetermined, Place{deployment->source},
                   "what a rank holds is not known: " + deployment->no_model,
                   "give the model's sizes as `model: config.json`, or its "
                   "parameters as `manifest: FILE`");
    }
    return std::move(deployment->manifest);
  }
  ManifestOptions with_plain = options;
  // Whether the manifest has a format that is always a single file, so that it
  // can be cached. ReadPlainManifest, StreamPlainManifest and ParseManifest
  // read these formats.
  bool alone = false;
  with_plain.plain = [&](const SourceRef& source) {
    auto read = ReadPlainManifest(source);
    alone = alone || read.has_value();
    return read;
  };
  with_plain.streamed = [&](const InputFile& file) {
    auto read = StreamPlainManifest(file);
    alone = alone || read.has_value();
    return read;
  };
  const auto parse = [&](const JsonDocument& document, Findings& own) {
    alone = true;
    if (!program::IsProgram(document.source())) {
      return ParseManifest(document, own);
    }
    // A traced program has the parameters of its function.
    const auto traced = program::ReadProgram(document, own);
    if (!traced) return std::optional<Manifest>();
    Manifest params = program::ManifestOf(*traced);
    params.source = document.source();
    return std::optional(std::move(params));
  };
  const FileStamp stamp = cache == nullptr ? FileStamp{} : StampOf(path);
  if (cache != nullptr) {
    if (auto known = cache->Find(path, stamp)) return known;
  }
  const bool clean = findings.empty();
  auto manifest = ReadManifest(path, parse, with_plain, findings);
  if (!manifest) return std::nullopt;
  const size_t before = findings.errors();
  SettleSeparator(*manifest, findings);
  if (findings.errors() > before) return std::nullopt;
  if (cache != nullptr && alone && clean && findings.empty()) {
    cache->Keep(path, stamp, *manifest);
  }
  return manifest;
}

std::optional<RuleSet> OpenRules(const std::vector<std::string>& files,
                                 const std::string& project_dir,
                                 const Manifest* manifest,
                                 const std::string& model_type,
                                 Findings& findings, const FileTexts* texts,
                                 const Boundary& boundary) {
  if (files.empty()) {
    findings.Add(code::kUsage, {}, "no rules are given",
                 "write `--rules FILE`, `--rules builtin:llama` or `--rules "
                 "auto`, which picks a pack by the names");
    return std::nullopt;
  }
  std::vector<std::string> named = files;
  for (std::string& file : named) {
    if (file != "auto") continue;
    auto pack = PackForAuto(manifest, model_type, findings);
    if (!pack) return std::nullopt;
    file = std::move(*pack);
  }
  const std::string_view naming =
      manifest == nullptr ? "" : NamingOf(*manifest);
  if (!PacksExist(named, naming, findings)) return std::nullopt;
  // The rules that follow from a configuration replace the text of a file of
  // its name.
  FileTexts with_configs = texts == nullptr ? FileTexts() : *texts;
  for (const std::string& file : named) {
    if (!IsConfigName(file)) continue;
    const auto deployment = DeployNamed(file, findings);
    if (!deployment) return std::nullopt;
    auto text = systems::RulesOf(*deployment, findings);
    if (!text) return std::nullopt;
    with_configs[FileIdOf(file)] = std::move(*text);
  }
  RuleSet broken;
  auto rules = ReadRules(
      named, [naming](std::string_view name) { return FindPack(name, naming); },
      findings, &broken,
      with_configs.empty() && texts == nullptr ? nullptr : &with_configs,
      boundary);
  if (rules) {
    if (manifest != nullptr) FitPacksToStacks(*rules, *manifest);
    NameSources(*rules, named, project_dir);
  } else {
    CheckPatterns(broken, findings);
  }
  return rules;
}

void CheckPatterns(const RuleSet& rules, Findings& findings) {
  Matcher::Compile(PatternsOf(rules.rules), findings);
}

void CheckNames(const RuleSet& rules, Findings& findings) {
  // This mesh has every name that can only be an axis, so that no such name is
  // reported.
  Mesh mesh;
  const auto add_list = [&](const SpecList& list) {
    for (const SpecEntry& entry : list.entries) {
      for (const SpecName& name : entry.names) {
        if (name.text.starts_with("__") || mesh.Find(name.text)) continue;
        if (!name.is_mesh_axis && rules.IsLogical(name.text)) continue;
        mesh.axes.push_back({name.text, 1});
      }
    }
  };
  const auto add = [&](const SpecSource& source) {
    if (const auto* list = std::get_if<SpecList>(&source)) add_list(*list);
  };
  for (const Bundle& bundle : rules.bundles) add_list(bundle.axes);
  const auto for_specs = [&](const auto& take) {
    const auto each = [&](const auto& one) {
      take(one.spec);
      for (const auto& [mode, source] : one.modes) take(source);
    };
    std::for_each(rules.rules.begin(), rules.rules.end(), each);
    std::for_each(rules.activations.begin(), rules.activations.end(), each);
  };
  for_specs(add);
  const auto resolver = Resolver::Make(rules, mesh, findings);
  if (!resolver) return;
  const auto check = [&](const SpecSource& source) {
    if (std::holds_alternative<SpecLike>(source)) return;
    resolver->Resolve(source, Mode::kTrain, findings);
  };
  for_specs(check);
}

namespace {

// Returns the naming of the tree that is built from a config.json. It is flax
// if the rules name a pack such as builtin:llama/flax. Otherwise it is empty,
// and the tree has its default naming.
std::string_view NamingFor(const Target& target) {
  const bool flax = std::any_of(
      target.rules.begin(), target.rules.end(), [](const std::string& file) {
        return IsPackName(file) && file.ends_with("/flax");
      });
  return flax ? "flax" : "";
}

// Returns whether the tree has the tensors of a quantised checkpoint, and all
// rules are those of packs, which have no rule for some of these tensors. The
// packs of most families have rules for unquantised weights only.
bool PacksLackQuantised(const Manifest& tree, const RuleSet& rules) {
  const auto quantised = [](const std::string& note) {
    return note.starts_with(kQuantisedAs);
  };
  const auto in_pack = [](const Rule& rule) {
    return IsPackName(rule.source_name);
  };
  if (std::none_of(tree.notes.begin(), tree.notes.end(), quantised) ||
      !std::all_of(rules.rules.begin(), rules.rules.end(), in_pack)) {
    return false;
  }
  Findings ignored;
  const auto matcher = Matcher::Compile(PatternsOf(rules.rules), ignored);
  if (!matcher) return false;
  std::vector<std::string_view> names;
  for (const Tensor& tensor : tree.tensors) names.push_back(tensor.name);
  const auto first = matcher->Match(names, tree.separator).first;
  return IsAmong(Matches::kNone, first);
}

}  // namespace

bool IsComplete(const Target& target, const OpenOptions& options,
                Findings& findings) {
  // The missing inputs, and the key by which a target of a project names each
  // input.
  std::vector<std::pair<std::string_view, std::string_view>> missing;
  if (!options.mesh && !IsNamed(target.mesh)) {
    missing.emplace_back("mesh", "`mesh: dp:2,tp:4`");
  }
  if (target.rules.empty()) missing.emplace_back("rules", "`rules: auto`");
  if (target.manifest.empty() && target.model.empty()) {
    missing.emplace_back("manifest", "`manifest: FILE`");
  }
  if (missing.empty()) return true;
  std::string list, keys;
  for (size_t i = 0; i < missing.size(); ++i) {
    const bool last = i + 1 == missing.size();
    list += i == 0 ? "" : last ? " and no " : ", no ";
    list += missing[i].first;
    keys += i == 0 ? "" : last ? " and " : ", ";
    keys += missing[i].second;
  }
  if (!target.name.empty()) {
    findings.Add(code::kUsage, {}, "no " + list + " given",
                 "add " + keys + " to the target");
    return false;
  }
  findings.Add(
      code::kUsage, {}, "no " + list + " given",
      "write `--mesh dp:2,tp:4 --rules auto --manifest FILE` (or "
      "`--model config.json` in place of a manifest), or a target in a "
      "`shardc.yaml` in this folder or above, where it is looked for");
  return false;
}

std::optional<ModelConfig> StatedModel(const Manifest& manifest) {
  if (manifest.config.empty()) return std::nullopt;
  Findings ignored;
  const auto document = JsonDocument::Parse(
      MakeSource(std::string(manifest.source->name()), manifest.config),
      ignored);
  if (document == nullptr) return std::nullopt;
  auto model = ReadModelConfig(*document, ignored);
  return ignored.errors() > 0 ? std::nullopt : std::move(model);
}

std::optional<Manifest> DescribedTree(const Target& target,
                                      Findings& findings) {
  return families::BuildTree(target.model, NamingFor(target), findings,
                             target.families, {.trained = true, .dtype = {}});
}

namespace {

using Names = std::unordered_set<std::string_view>;

// Returns what the description of the config's family states about tensors of
// these names; null without a description, or if it has none of the names.
std::shared_ptr<const program::Facts> DescribedFacts(
    const std::string& config_path, const std::string& families,
    const Names& names) {
  std::shared_ptr<const program::Facts> out;
  const bool slashes = std::ranges::any_of(
      names, [](std::string_view name) { return name.find('/') != name.npos; });
  using Namings = std::vector<std::string_view>;
  int64_t most = 0;
  for (const std::string_view naming :
       slashes ? Namings{"flax", "easydel"} : Namings{"hf", "hf-files"}) {
    Findings ignored;
    auto tree = families::BuildTree(config_path, naming, ignored, families,
                                    {.trained = true, .dtype = {}});
    if (!tree) continue;
    const auto found = std::ranges::count_if(
        tree->tensors,
        [&](const Tensor& tensor) { return names.contains(tensor.name); });
    if (found <= most) continue;
    most = found;
    out = std::move(tree->described);
    // No other naming has more of the names.
    if (found == std::ssize(names)) break;
  }
  return out;
}

}  // namespace

void AddDescribed(const std::string& config_path, const std::string& families,
                  Manifest& manifest) {
  if (config_path.empty() || manifest.described != nullptr) return;
  Names names;
  for (const Tensor& tensor : manifest.tensors) names.insert(tensor.name);
  manifest.described = DescribedFacts(config_path, families, names);
}

std::optional<ModelConfig> OpenModel(const std::string& config_path,
                                     const Manifest* manifest,
                                     Findings& findings) {
  auto out = ReadModelConfig(config_path, findings);
  if (out && manifest != nullptr && manifest->described != nullptr) {
    CompleteSizes(*manifest->described, *out);
  }
  return out;
}

std::optional<ModelConfig> OpenModel(const std::string& config_path,
                                     const std::string& families,
                                     ReadPlan& plan, Findings& findings) {
  auto out = ReadModelConfig(config_path, findings);
  if (!out) return out;
  Names names;
  for (const ReadParam& param : plan.params) names.insert(param.name);
  plan.described = DescribedFacts(config_path, families, names);
  if (plan.described != nullptr) CompleteSizes(*plan.described, *out);
  return out;
}

std::optional<RuleSet> OpenRulesAlone(const Target& target, Findings& findings,
                                      const FileTexts* texts,
                                      const Boundary& boundary) {
  std::optional<Manifest> manifest;
  std::string model_type;
  const bool picks = IsAmong("auto", target.rules);
  if (picks && !target.model.empty()) {
    const auto model = ReadModelConfig(target.model, findings);
    if (!model) return std::nullopt;
    model_type = model->model_type;
  }
  if (picks && (!target.manifest.empty() || !target.model.empty())) {
    manifest = target.manifest.empty()
                   ? families::BuildTree(target.model, NamingFor(target),
                                         findings, target.families)
                   : OpenManifest(target.manifest, {}, findings);
    if (!manifest) return std::nullopt;
  }
  return OpenRules(target.rules, target.project_dir,
                   manifest ? &*manifest : nullptr, model_type, findings, texts,
                   boundary);
}

std::optional<Opened> OpenTarget(const Target& target,
                                 const OpenOptions& options,
                                 Findings& findings) {
  if (!IsComplete(target, options, findings)) return std::nullopt;
  const size_t before = findings.errors();
  Opened out;
  auto mesh = options.mesh ? options.mesh
                           : OpenMesh(target.mesh, options.devices, findings,
                                      options.held.texts);
  // The findings of a configuration would be repeated by its other inputs.
  if (!mesh && IsConfigName(target.mesh.file)) return std::nullopt;
  if (mesh && options.processes) {
    SetProcesses(*mesh, *options.processes, findings);
  }
  const bool builds = target.manifest.empty();
  families::TreeWeights weights = options.weights;
  const std::vector<Mode>& modes =
      options.modes.empty() ? target.modes : options.modes;
  weights.trained = weights.trained || modes == std::vector<Mode>{Mode::kTrain};
  auto manifest = builds
                      ? families::BuildTree(target.model, NamingFor(target),
                                            findings, target.families, weights)
                      : OpenManifest(target.manifest, options.manifest,
                                     findings, options.held.manifests);
  // If no tree could be built from the config.json, its errors have already
  // been reported, so the file is not read again.
  if (manifest) AddDescribed(target.model, target.families, *manifest);
  if (!target.model.empty() && (manifest || !builds)) {
    out.model =
        OpenModel(target.model, manifest ? &*manifest : nullptr, findings);
  } else if (manifest && IsConfigName(target.manifest)) {
    const std::string config = ConfigModel(target.manifest);
    if (!config.empty()) {
      AddDescribed(config, target.families, *manifest);
      out.model = OpenModel(config, &*manifest, findings);
    }
  } else if (manifest) {
    out.model = StatedModel(*manifest);
  }
  // If the manifest could not be read, `auto` is left out. It would only report
  // that no pack fits the names, which is a consequence of the manifest's own
  // error.
  std::vector<std::string> files = target.rules;
  if (!manifest) std::erase(files, "auto");
  std::optional<RuleSet> rules;
  if (!files.empty()) {
    rules =
        OpenRules(files, target.project_dir, manifest ? &*manifest : nullptr,
                  out.model ? out.model->model_type : "", findings,
                  options.held.texts, options.rules_boundary);
  }
  if (rules) {
    out.stages =
        DeclaredStages(target, *rules, options.rules_boundary, findings);
  }
  if (findings.errors() > before || !mesh || !manifest || !rules) {
    return std::nullopt;
  }
  if (builds && PacksLackQuantised(*manifest, *rules)) {
    // The packs' rules are for the tree before quantisation.
    weights.trained = true;
    weights.dtype.clear();
    manifest = families::BuildTree(target.model, NamingFor(target), findings,
                                   target.families, weights);
    if (!manifest) return std::nullopt;
    FitPacksToStacks(*rules, *manifest);
  }
  if (options.policy.kv_replicate) {
    rules->policy.kv_replicate = options.policy.kv_replicate;
  }
  ChoosePackAxes(*rules, out.model ? &*out.model : nullptr, *mesh);
  out.mesh = std::move(*mesh);
  out.manifest = std::move(*manifest);
  out.rules = std::move(*rules);
  out.options.policy = options.policy;
  out.options.weight_decay_exclude = target.weight_decay_exclude;
  if (!options.modes.empty()) {
    out.options.modes = options.modes;
  } else if (!target.modes.empty()) {
    out.options.modes = target.modes;
  }
  out.options.threads = ThreadsOr(options.threads);
  out.options.config = SharedConfig(out.model);
  return out;
}

std::unique_ptr<const Compiled> CompileTarget(Opened opened,
                                              Findings& findings) {
  auto compiled = Compile(std::move(opened.mesh), std::move(opened.rules),
                          std::move(opened.manifest), opened.options, findings);
  if (compiled == nullptr) return compiled;
  const ModelConfig* config = opened.model ? &*opened.model : nullptr;
  SetKv(config, *compiled);
  if (!opened.stages) return compiled;
  DivideByStages(*opened.stages, config, *compiled, findings);
  return compiled;
}

FileStamp StampOf(const std::string& path) {
  FileStamp stamp;
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return stamp;
  }
  stamp.file = FileIdOf(status);
  stamp.size = status.st_size;
  stamp.modified_ns = ModifiedNs(status);
  stamp.changed_ns = ChangedNs(status);
  return stamp;
}

std::optional<Manifest> ManifestCache::Find(const std::string& path,
                                            const FileStamp& stamp) const {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(path);
  if (stamp.size < 0 || at == entries_.end() || at->second.stamp != stamp) {
    return std::nullopt;
  }
  return at->second.manifest;
}

void ManifestCache::Keep(const std::string& path, const FileStamp& stamp,
                         const Manifest& manifest) {
  if (stamp.size < 0) return;
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kLimit) entries_.clear();
  entries_.insert_or_assign(path, Entry{stamp, manifest});
}

}  // namespace shardc
