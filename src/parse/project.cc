// Reads a project file (shardc.yaml). Paths in the file are relative to the
// file's folder, and the folder's path is put before them here. The project
// file is searched for in a folder and its parents. The search ends at the root
// of the git repository or, without a repository, of the file system:
//
//   in repo/a/b: repo/a/b/shardc.yaml, repo/a/shardc.yaml, repo/shardc.yaml
#include "parse/project.h"

#include <array>
#include <charconv>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "model/name.h"
#include "parse/config_name.h"
#include "parse/keys.h"
#include "parse/mesh.h"
#include "parse/rules.h"
#include "source/file.h"
#include "source/list.h"
#include "source/repository.h"
#include "source/sink.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "yaml/read.h"
#include "yaml/scan.h"

namespace shardc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kProjectName = "shardc.yaml";
constexpr char kModesText[] =
    "the modes are `train`, `prefill`, `decode` and `insert`";

class ProjectReader {
 public:
  ProjectReader(const YamlContext& context, std::string path, Boundary boundary,
                const FileTexts* texts)
      : context_(context),
        path_(std::move(path)),
        boundary_(std::move(boundary)),
        texts_(texts) {}

  Project Read() {
    Project project;
    project.path = path_;
    const auto fields =
        Fields::Read(context_, context_.document.root(), keys::kProject);
    if (!fields) return project;
    CheckVersion(context_, fields->Find("version"));
    if (const YamlNode* node = fields->Find("targets")) {
      ReadTargets(*node, project);
    }
    ReadFamilies(*fields, project);
    if (const YamlNode* node = fields->Find("lint")) {
      ReadLint(*node, project.lint);
    }
    if (const YamlNode* node = fields->Find("weight_decay")) {
      const auto all = ReadWeightDecay(context_, *node);
      for (Target& target : project.targets) {
        if (!target.weight_decay_exclude) target.weight_decay_exclude = all;
      }
    }
    return project;
  }

 private:
  bool IsMap(const YamlNode& node, std::string_view what) {
    if (node.IsMapping()) return true;
    if (!node.IsNull()) {
      context_.Add(
          code::kSchema, node,
          std::string(what) + " is " + Describe(node) + ", not a mapping",
          what == "`targets`" ? "give each target a name: `targets: {main: "
                                "{mesh: ..., rules: ..., model: ...}}`"
                              : "");
    }
    return false;
  }

  void ReadTargets(const YamlNode& node, Project& project) {
    if (!IsMap(node, "`targets`")) return;
    for (const YamlMember& member : node.members) {
      if (context_.findings.Full()) return;
      auto name =
          ReadKey(context_, member.key, code::kSchema, "the name of a target");
      if (!name) continue;
      const auto fields = Fields::Read(context_, member.value, keys::kTarget);
      if (!fields) continue;
      Target target;
      target.name = std::move(*name);
      target.place = context_.document.PlaceOf(member.key);
      const auto folder = fs::path(path_).parent_path();
      target.project_dir = folder.empty() ? "." : folder.string();
      named_at_.clear();
      ReadTarget(*fields, target);
      target.named_at = std::move(named_at_);
      project.targets.push_back(std::move(target));
    }
  }

  // Reads the folder of descriptions of model families, which all targets use.
  // A description that is a link must also stay inside the repository.
  void ReadFamilies(const Fields& fields, Project& project) {
    named_at_.clear();
    ReadPath(fields, "families", project.families);
    if (project.families.empty()) return;
    std::error_code error;
    const auto names =
        NamesIn(project.families, error).value_or(std::vector<std::string>());
    for (const std::string& name : names) {
      const std::string path = PathIn(project.families, name);
      if (boundary_.Holds(path)) continue;
      context_.Add(code::kPath, *fields.Find("families"),
                   "`families` has a link that leads out of the project's "
                   "repository: `" +
                       path + "`",
                   std::string(kOutsideHelp));
      return;
    }
    for (Target& target : project.targets) {
      target.families = project.families;
      auto origin = ParseConfigName(target.manifest);
      if (origin) {
        const auto place = target.named_at.find(target.manifest);
        origin->families = project.families;
        const std::string name = ConfigNameOf(*origin);
        if (place != target.named_at.end()) {
          target.named_at.emplace(name, place->second);
        }
        target.mesh.file = name;
        target.rules = {name};
        target.manifest = name;
      }
      target.named_at.insert(named_at_.begin(), named_at_.end());
    }
  }

  void ReadTarget(const Fields& fields, Target& target) {
    if (const YamlNode* node = fields.Find("mesh")) {
      ReadMeshInput(*node, target.mesh);
    }
    if (const YamlNode* node = fields.Find("rules")) {
      ReadRuleNames(*node, target.rules);
    }
    ReadPath(fields, "manifest", target.manifest);
    ReadPath(fields, "model", target.model);
    ReadPath(fields, "plan", target.plan);
    ReadPath(fields, "step", target.step);
    if (!target.step.empty() && fs::path(target.step).lexically_normal() ==
                                    fs::path(target.plan).lexically_normal()) {
      context_.Add(code::kSchema, *fields.Find("step"),
                   "`step` is the file of `plan`",
                   "give the step program a file of its own");
    }
    if (const YamlNode* node = fields.Find("from")) {
      ReadFrom(*node, fields, target);
    }
    if (const YamlNode* node = fields.Find("runtime")) {
      ReadRuntimes(*node, target.step_options);
    }
    if (const YamlNode* node = fields.Find("modes")) {
      ReadModes(*node, target.modes);
    }
    ReadVerify(fields, target.verify);
    ReadCount(fields, "batch", target.batch);
    ReadCount(fields, "kv_len", target.kv_len);
    ReadStepOptions(fields, target.step_options);
    if (const YamlNode* node = fields.Find("budget")) {
      ReadBudget(*node, target);
    }
    if (const YamlNode* node = fields.Find("memory")) {
      target.memory_bytes = ReadBytes(context_, *node, "`memory`");
    }
    if (const YamlNode* node = fields.Find("weight_decay")) {
      target.weight_decay_exclude = ReadWeightDecay(context_, *node);
    }
    if (const YamlNode* node = fields.Find("stages")) CheckStages(*node);
  }

  // Reads `from`: the file of a system, the number of devices, the name of a
  // configuration in Python, and further keys. Mesh, rules and manifest of the
  // target are then named by the configuration.
  void ReadFrom(const YamlNode& node, const Fields& fields, Target& target) {
    if (!IsMap(node, "`from`")) return;
    ConfigOrigin origin;
    Place place;
    for (const YamlMember& member : node.members) {
      const std::string& key = member.key.text;
      if (key == "devices") {
        origin.devices =
            ReadInteger(context_, member.value, "`devices`", {1, 1 << 20});
      } else if (key == "symbol") {
        origin.symbol =
            ReadText(context_, member.value, "`symbol`").value_or("");
      } else if (key == "set") {
        if (!IsMap(member.value, "`set`")) continue;
        for (const YamlMember& one : member.value.members) {
          origin.set.push_back(one.key.text + "=" + one.value.text);
        }
      } else if (!origin.system.empty()) {
        context_.Add(code::kSchema, member.key,
                     "`from` names two systems, `" + origin.system + "` and `" +
                         key + "`",
                     "write a target for each");
      } else {
        const auto path =
            ReadText(context_, member.value, "`" + key + "`", true);
        if (!path || !IsInside(member.value, key, *path)) continue;
        origin.system = key;
        origin.file = PathNextTo(path_, *path);
        place = context_.document.PlaceOf(member.value);
        named_at_.emplace(origin.file, place);
      }
    }
    if (origin.system.empty()) {
      context_.Add(code::kSchema, node, "`from` names no system",
                   "write, for example, `from: {megatron: train.sh}`");
      return;
    }
    for (const std::string_view key : {"mesh", "rules"}) {
      const YamlNode* other = fields.Find(key);
      if (other == nullptr) continue;
      context_.Add(code::kSchema, *other,
                   "the target has `from`, from which `" + std::string(key) +
                       "` follows",
                   "leave out one of them");
    }
    origin.model = target.model;
    origin.manifest = target.manifest;
    const std::string name = ConfigNameOf(origin);
    target.mesh = MeshInput{name, {}, {}, place};
    target.rules = {name};
    target.manifest = name;
    named_at_.emplace(name, place);
  }

  // Reads `runtime`: the systems that are to run the plan, for `check`.
  void ReadRuntimes(const YamlNode& node, std::vector<StepOption>& out) {
    const auto names = ReadTexts(context_, node, "`runtime`");
    if (!names) return;
    for (const std::string& name : *names) {
      out.push_back(
          {std::string(kRuntimeOption), name, context_.document.PlaceOf(node)});
    }
  }

  // Reads the keys that set an option of `cost`. The commands that use the
  // options check their values.
  void ReadStepOptions(const Fields& fields, std::vector<StepOption>& out) {
    for (const std::string_view key :
         {"seq", "microbatches", "remat", "optimizer", "zero"}) {
      const YamlNode* node = fields.Find(key);
      if (node == nullptr) continue;
      const auto text = ReadText(context_, *node, "`" + std::string(key) + "`");
      if (!text) continue;
      if (text->empty()) {
        context_.Add(code::kSchema, *node,
                     "`" + std::string(key) + "` is empty",
                     "give it a value, or remove the key");
        continue;
      }
      StepOption& option = out.emplace_back();
      option.name = "--" + std::string(key);
      option.value = *text;
      option.place = context_.document.PlaceOf(*node);
    }
  }

  void ReadBudget(const YamlNode& node, Target& target) {
    const auto fields = Fields::Read(context_, node, keys::kBudget);
    if (!fields) return;
    StepBudget& out = target.budget;
    // A target that only serves has no training step to limit.
    const auto trains = IsAmong(Mode::kTrain, target.modes);
    if (!target.modes.empty() && !trains) out.mode = target.modes[0];
    if (const YamlNode* mode = fields->Find("mode")) {
      std::vector<Mode> modes;
      ReadModes(*mode, modes);
      if (!modes.empty()) out.mode = modes[0];
      const bool planned = out.mode == Mode::kTrain || target.modes.empty() ||
                           IsAmong(out.mode, target.modes);
      if (modes.size() > 1 || !planned) {
        context_.Add(code::kSchema, *mode,
                     modes.size() > 1
                         ? "a budget is for one mode"
                         : "`modes` of the target lacks the budget's mode");
      }
    }
    ReadByteLimit(*fields, "memory", out.memory);
    ReadByteLimit(*fields, "sent", out.sent);
    ReadLimit(*fields, "time", {{{"ms", 1e-3}, {"s", 1}}},
              "a time such as `900ms` or `1.5s`", out.time);
    ReadLimit(*fields, "growth", {{{"%", 0.01}, {"%", 0.01}}},
              "a percentage such as `5%`", out.growth);
    if (out.growth && target.plan.empty()) {
      context_.Add(code::kSchema, *fields->Find("growth"),
                   "`growth` is compared with figures that are committed "
                   "next to a plan, and the target has no `plan`",
                   "give it one: `plan: plans/" + target.name + ".plan.json`");
    }
  }

  void ReadByteLimit(const Fields& fields, std::string_view key,
                     std::optional<BudgetLimit>& out) {
    const YamlNode* node = fields.Find(key);
    if (node == nullptr) return;
    // A step may send nothing, but ReadBytes does not accept 0.
    const auto bytes =
        node->IsScalar() && node->text == "0"
            ? std::optional<int64_t>(0)
            : ReadBytes(context_, *node, "`" + std::string(key) + "`");
    if (!bytes) return;
    out = {static_cast<double>(*bytes), context_.document.PlaceOf(*node)};
  }

  using Units = std::array<std::pair<std::string_view, double>, 2>;

  // Reads a decimal number with a unit. The value is the number times the
  // factor of the first unit with which the text ends.
  void ReadLimit(const Fields& fields, std::string_view key, const Units& units,
                 std::string_view what, std::optional<BudgetLimit>& out) {
    const YamlNode* node = fields.Find(key);
    if (node == nullptr) return;
    std::string_view text =
        node->IsScalar() ? std::string_view(node->text) : std::string_view();
    for (const auto& [unit, factor] : units) {
      if (!text.ends_with(unit)) continue;
      text.remove_suffix(unit.size());
      if (text.ends_with(' ')) text.remove_suffix(1);
      double number = 0;
      const char* end = text.data() + text.size();
      const auto [stop, error] =
          std::from_chars(text.data(), end, number, std::chars_format::fixed);
      const bool digits =
          !text.empty() && IsDigit(text.front()) && IsDigit(text.back());
      if (!digits || error != std::errc() || stop != end || number > 1e9) break;
      out = {number * factor, context_.document.PlaceOf(*node)};
      return;
    }
    context_.Add(code::kSchema, *node,
                 "`" + std::string(key) + "` is " + Describe(*node) + ", not " +
                     std::string(what));
  }

  // Reports errors in the section `stages`. The section is not stored here,
  // because DeclaredStages reads it from the file again when it is needed.
  void CheckStages(const YamlNode& node) {
    const auto stages = ReadStages(context_, node);
    if (stages) ScheduleIsInside(*stages, boundary_, context_.findings);
  }

  void ReadVerify(const Fields& fields, VerifyInput& verify) {
    if (const YamlNode* node = fields.Find("operations")) {
      ReadOperationNames(*node, verify.operations);
    }
    if (const YamlNode* node = fields.Find("layout")) {
      ReadEach(*node, "a layout", "`bthd`, `bhtd` and `thd`", ParseLayout,
               verify.layouts);
    }
    if (const YamlNode* node = fields.Find("dtype")) {
      ReadEach(*node, "a dtype", "`float32`, `bfloat16` and `float16`",
               ParseRealDtype, verify.dtypes);
    }
    if (const YamlNode* node = fields.Find("kv_dtype")) {
      std::vector<Dtype> dtypes;
      if (node->IsScalar()) {
        ReadEach(*node, "`kv_dtype`",
                 "`float32`, `bfloat16`, `float16` and `int8`", ParseCacheDtype,
                 dtypes);
      } else {
        context_.Add(code::kSchema, *node,
                     "`kv_dtype` is " + Describe(*node) + ", not a dtype");
      }
      if (!dtypes.empty()) verify.kv_dtype = dtypes[0];
    }
    if (const YamlNode* node = fields.Find("settings")) {
      if (node->IsMapping()) {
        verify.inline_settings = context_.document.PlaceOf(*node);
      } else {
        ReadPath(fields, "settings", verify.settings);
      }
    }
  }

  static std::optional<Dtype> ParseRealDtype(std::string_view text) {
    const auto dtype = ParseDtype(text);
    if (dtype == Dtype::kF32 || dtype == Dtype::kBF16 || dtype == Dtype::kF16) {
      return dtype;
    }
    return std::nullopt;
  }

  static std::optional<Dtype> ParseCacheDtype(std::string_view text) {
    const auto dtype = ParseDtype(text);
    return dtype == Dtype::kI8 ? dtype : ParseRealDtype(text);
  }

  // Reads one value or a list of values. Repeated values are stored once.
  template <class T, class Parse>
  void ReadEach(const YamlNode& node, std::string_view what,
                std::string_view known, Parse parse, std::vector<T>& out) {
    for (const YamlNode& item : ItemsOf(node)) {
      const auto value =
          item.IsScalar() ? parse(item.text) : std::optional<T>();
      if (!value) {
        context_.Add(code::kSchema, item,
                     std::string(what) + " is " + Describe(item),
                     "there are " + std::string(known));
      } else
        AddOnce(out, *value);
    }
  }

  // Returns the items of a list. If the node is not a list, returns the node
  // itself as the only item.
  static std::span<const YamlNode> ItemsOf(const YamlNode& node) {
    if (node.IsSequence()) return node.items;
    return {&node, 1};
  }

  // Reads the names of operations. They are one name, a list of names, or a
  // mapping from modes to a name or a list of names.
  void ReadOperationNames(const YamlNode& node,
                          std::vector<VerifyInput::Named>& out) {
    if (!node.IsMapping()) {
      ReadNames(node, std::nullopt, out);
      return;
    }
    for (const YamlMember& member : node.members) {
      if (context_.findings.Full()) return;
      const auto mode =
          member.key.IsScalar() ? ParseMode(member.key.text) : std::nullopt;
      if (mode) {
        ReadNames(member.value, mode, out);
      } else {
        context_.Add(code::kUnknownKey, member.key,
                     "a mode is " + Describe(member.key), kModesText);
      }
    }
  }

  void ReadNames(const YamlNode& node, std::optional<Mode> mode,
                 std::vector<VerifyInput::Named>& out) {
    if (node.IsNull()) return;
    for (const YamlNode& item : ItemsOf(node)) {
      if (auto name = ReadText(context_, item, "an operation", true)) {
        out.push_back(
            {std::move(*name), mode, context_.document.PlaceOf(item)});
      }
    }
  }

  void ReadMeshInput(const YamlNode& node, MeshInput& mesh) {
    if (node.IsMapping()) {
      mesh.inline_place = context_.document.PlaceOf(node);
      return;
    }
    auto text = ReadText(context_, node, "`mesh`", true);
    if (!text) return;
    std::string file = PathNextTo(path_, *text);
    const bool axes = IsMeshText(*text);
    if (axes && (!boundary_.Holds(file) || !IsThere(file, texts_))) {
      mesh.text = std::move(*text);
      mesh.text_place = context_.document.PlaceOf(node);
    } else if (IsInside(node, "mesh", *text)) {
      mesh.file = std::move(file);
      named_at_.emplace(mesh.file, context_.document.PlaceOf(node));
    }
  }

  void ReadRuleNames(const YamlNode& node, std::vector<std::string>& out) {
    auto names = ReadTexts(context_, node, "`rules`");
    if (!names) return;
    const auto nodes = ItemsOf(node);
    for (size_t i = 0; i < names->size(); ++i) {
      std::string& name = (*names)[i];
      if (name == "auto" || IsPackName(name)) {
        out.push_back(std::move(name));
        continue;
      }
      const YamlNode& item = i < nodes.size() ? nodes[i] : node;
      if (!IsInside(item, "rules", name)) continue;
      out.push_back(PathNextTo(path_, name));
      named_at_.emplace(out.back(), context_.document.PlaceOf(item));
    }
  }

  void ReadPath(const Fields& fields, std::string_view key, std::string& out) {
    const YamlNode* node = fields.Find(key);
    if (node == nullptr) return;
    const auto path =
        ReadText(context_, *node, "`" + std::string(key) + "`", true);
    if (path && path->empty()) {
      context_.Add(code::kSchema, *node, "`" + std::string(key) + "` is empty");
    } else if (path && IsInside(*node, key, *path)) {
      out = PathNextTo(path_, *path);
      named_at_.emplace(out, context_.document.PlaceOf(*node));
    }
  }

  // Returns whether a path of the project is inside the project's repository.
  // If not, adds a finding. The file itself need not exist.
  bool IsInside(const YamlNode& node, std::string_view key,
                const std::string& path) {
    if (boundary_.Holds(PathNextTo(path_, path))) return true;
    context_.Add(code::kPath, node,
                 "`" + std::string(key) +
                     "` leads out of the project's repository: `" + path + "`",
                 std::string(kOutsideHelp));
    return false;
  }

  void ReadCount(const Fields& fields, std::string_view key,
                 std::optional<int64_t>& out) {
    const YamlNode* node = fields.Find(key);
    if (node == nullptr) return;
    out = ReadInteger(context_, *node, "`" + std::string(key) + "`", {1});
  }

  void ReadModes(const YamlNode& node, std::vector<Mode>& out) {
    for (const YamlNode& item : ItemsOf(node)) {
      const auto mode = item.IsScalar() ? ParseMode(item.text) : std::nullopt;
      if (!mode) {
        context_.Add(code::kSchema, item, "a mode is " + Describe(item),
                     kModesText);
      } else
        AddOnce(out, *mode);
    }
  }

  void ReadLint(const YamlNode& node, LintSettings& lint) {
    if (node.IsNull()) return;
    const auto fields = Fields::Read(context_, node, keys::kLint);
    if (!fields) return;
    ReadCodes(*fields, "select", lint.select, lint.places);
    ReadCodes(*fields, "ignore", lint.ignore, lint.places);
    if (const YamlNode* severity = fields->Find("severity")) {
      ReadSeverity(*severity, lint);
    }
    if (const YamlNode* fail_on = fields->Find("fail_on")) {
      static constexpr std::array<std::string_view, 4> kChoices = {
          "error", "warning", "note", "never"};
      const auto choice = ReadChoice(context_, *fail_on, "`fail_on`", kChoices);
      if (choice) lint.fail_on = kChoices[*choice];
    }
    ReadPath(*fields, "baseline", lint.baseline);
  }

  void ReadCodes(const Fields& fields, std::string_view key,
                 std::vector<std::string>& out,
                 std::map<std::string, Place>& places) {
    const YamlNode* node = fields.Find(key);
    if (node == nullptr || node->IsNull()) return;
    auto codes = ReadTexts(context_, *node, "`" + std::string(key) + "`");
    if (!codes) return;
    for (const YamlNode& item : ItemsOf(*node)) {
      places.emplace(item.text, context_.document.PlaceOf(item));
    }
    out = std::move(*codes);
  }

  void ReadSeverity(const YamlNode& node, LintSettings& out) {
    static constexpr std::array<std::string_view, 3> kChoices = {
        "error", "warning", "note"};
    constexpr std::array<Level, 3> kValues = {Level::kError, Level::kWarning,
                                              Level::kNote};
    if (!IsMap(node, "`severity`")) return;
    for (const YamlMember& member : node.members) {
      const auto code =
          ReadKey(context_, member.key, code::kSchema, "a key of `severity`");
      const auto level =
          ReadChoice(context_, member.value, "a severity", kChoices);
      if (!code || !level) continue;
      out.severity[*code] = kValues[*level];
      out.places.emplace(*code, context_.document.PlaceOf(member.key));
    }
  }

  const YamlContext& context_;
  std::string path_;
  Boundary boundary_;
  const FileTexts* texts_;  // may be null
  // For each file that the current target uses (by its path): the place in the
  // project file where the target names it.
  std::map<std::string, Place> named_at_;
};

}  // namespace

std::optional<std::string> FindProject(const std::string& directory) {
  std::error_code error;
  fs::path folder = fs::absolute(directory.empty() ? "." : directory, error);
  if (error) return std::nullopt;
  folder = folder.lexically_normal();
  for (;;) {
    const fs::path file = folder / kProjectName;
    if (fs::is_regular_file(file, error)) return file.string();
    if (fs::exists(folder / ".git", error)) return std::nullopt;
    const fs::path parent = folder.parent_path();
    if (parent == folder || parent.empty()) return std::nullopt;
    folder = parent;
  }
}

std::optional<Project> ReadProject(const std::string& path, Findings& findings,
                                   const FileTexts* texts, bool allow_outside) {
  const size_t before = findings.errors();
  const Boundary boundary = allow_outside ? Boundary() : Boundary::Of(path);
  if (!boundary.Holds(path)) {
    findings.Add(code::kPath, Place{MakeSource(path, {})},
                 "`" + path + "` is a link that leads out of its repository",
                 std::string(kOutsideHelp));
    return std::nullopt;
  }
  SourceRef source = ReadSource(path, texts, findings);
  if (source == nullptr) return std::nullopt;
  if (IsUnfinishedMark(source->text())) {
    findings.Add(code::kMissing, {source},
                 "a run was interrupted while it wrote this project",
                 "run the same command again: it completes the project");
    return std::nullopt;
  }
  const auto document = YamlDocument::Parse(std::move(source), findings);
  if (!document) return std::nullopt;
  const YamlContext context{*document, findings};
  Project project = ProjectReader(context, path, boundary, texts).Read();
  if (findings.errors() > before) return std::nullopt;
  return project;
}

// Reads the `audit` section of a target. Only checks of compiled programs need
// this section, so it is not a member of Target (model/project.h). The text of
// the project is parsed again here. For example:
//
//   budget: {total: 12GiB, all_gather: {tp: 0}}
//     ->  a device sends at most 12 GiB in total, and 0 bytes in all-gathers
//         over tp

namespace {

constexpr std::string_view kSums[] = {"total", "activations_gathered"};

using Names = std::span<const std::string_view>;

bool IsOneOf(Names names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Returns the names of all entries that a budget may have, as a text such as
// "there are total, activations_gathered, all_gather and ppermute".
std::string EntriesText(Names collectives) {
  std::string out = "there are ";
  for (const std::string_view sum : kSums) out += std::string(sum) + ", ";
  return out + ListInWords(collectives);
}

void ReadLimit(const YamlContext& context, const YamlNode& node, AuditLimit out,
               std::vector<AuditLimit>& to) {
  // A budget may be 0 bytes, which ReadBytes does not accept.
  if (node.IsScalar() && node.text == "0") {
    out.bytes = 0;
  } else if (const auto bytes = ReadBytes(context, node, "a budget")) {
    out.bytes = *bytes;
  } else {
    return;
  }
  out.place = context.document.PlaceOf(node);
  to.push_back(std::move(out));
}

std::vector<AuditLimit> ReadBudget(const YamlContext& context,
                                   Names collectives, const YamlNode& node) {
  std::vector<AuditLimit> out;
  if (!node.IsMapping()) {
    context.Add(code::kSchema, node,
                "`budget` is " + Describe(node) + ", not a mapping",
                "write `budget: {total: 12GiB, all_gather: {tp: 0}}`");
    return out;
  }
  for (const YamlMember& member : node.members) {
    const std::string name(member.key.text);
    const bool kind = IsOneOf(collectives, name);
    if (!kind && !IsOneOf(kSums, name)) {
      context.Add(code::kSchema, member.key,
                  "`budget` has no entry `" + name + "`",
                  EntriesText(collectives));
      continue;
    }
    if (!kind || !member.value.IsMapping()) {
      ReadLimit(context, member.value, {name, "", 0, {}}, out);
      continue;
    }
    for (const YamlMember& axes : member.value.members) {
      ReadLimit(context, axes.value, {name, std::string(axes.key.text), 0, {}},
                out);
    }
  }
  return out;
}

class AuditReader {
 public:
  AuditReader(const YamlContext& context, const Target& target,
              Names collectives, Boundary boundary)
      : context_(context),
        target_(target),
        collectives_(collectives),
        boundary_(std::move(boundary)) {}

  std::optional<AuditInput> Read(const YamlNode& node) {
    const size_t before = context_.findings.errors();
    const auto fields = Fields::Read(context_, node, keys::kAudit);
    if (!fields) return std::nullopt;
    AuditInput out;
    out.program = PathOf(*fields, "program");
    out.locked = PathOf(*fields, "locked");
    if (const YamlNode* budget = fields->Find("budget")) {
      out.limits = ReadBudget(context_, collectives_, *budget);
    }
    if (fields->Find("program") == nullptr) {
      context_.Add(code::kSchema, node, "`audit` names no program",
                   "give the text of the compiled step: `program: "
                   "build/step.hlo.txt`");
    }
    CheckLocked(*fields, out);
    if (context_.findings.errors() > before) return std::nullopt;
    return out;
  }

 private:
  std::string PathOf(const Fields& fields, const std::string& key) {
    const YamlNode* node = fields.Find(key);
    if (node == nullptr) return {};
    const auto path = ReadText(context_, *node, "`" + key + "`", true);
    if (!path) return {};
    const std::string out = PathNextTo(target_.place.source->name(), *path);
    if (path->empty()) {
      context_.Add(code::kSchema, *node, "`" + key + "` is empty",
                   "name a file");
    } else if (!boundary_.Holds(out)) {
      context_.Add(code::kPath, *node,
                   "`" + key + "` leads out of the project's repository: `" +
                       *path + "`",
                   "move it into the repository, or give `--allow-outside`");
    }
    return out;
  }

  void CheckLocked(const Fields& fields, const AuditInput& audit) {
    namespace fs = std::filesystem;
    for (const std::string* other :
         {&audit.program, &target_.plan, &target_.step}) {
      if (audit.locked.empty() || other->empty() ||
          fs::path(audit.locked).lexically_normal() !=
              fs::path(*other).lexically_normal()) {
        continue;
      }
      context_.Add(code::kSchema, *fields.Find("locked"),
                   "`locked` is another file of the target",
                   "give the summary a file of its own");
      return;
    }
  }

  const YamlContext& context_;
  const Target& target_;
  Names collectives_;
  Boundary boundary_;
};

}  // namespace

std::optional<AuditInput> ReadTargetAudit(
    const Target& target, std::span<const std::string_view> collectives,
    bool allow_outside, Findings& findings) {
  const SourceRef source = target.place.source;
  // Most projects have no `audit` section and need not be parsed again.
  if (source == nullptr ||
      source->text().find("audit") == std::string_view::npos) {
    return std::nullopt;
  }
  // The findings of this second parse are ignored, because errors in the rest
  // of the project have already been reported.
  Findings read;
  const auto document = YamlDocument::Parse(source, read);
  if (!document) return std::nullopt;
  const YamlNode* targets = MemberOf(document->root(), "targets");
  const YamlNode* own =
      targets == nullptr ? nullptr : MemberOf(*targets, target.name);
  const YamlNode* node = own == nullptr ? nullptr : MemberOf(*own, "audit");
  if (node == nullptr) return std::nullopt;
  const YamlContext context{*document, findings};
  return AuditReader(context, target, collectives,
                     allow_outside ? Boundary() : Boundary::Of(source->name()))
      .Read(*node);
}

}  // namespace shardc
