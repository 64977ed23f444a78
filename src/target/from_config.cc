// Reads configurations of other systems as inputs of targets, and searches
// folders for them. A search first looks for words that such a file has, so
// that most files of a repository are not parsed:
//
//   train.sh with `--tensor-model-parallel-size`  ->  megatron: train.sh
#include "target/from_config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <utility>

#include "match/match.h"
#include "source/file.h"
#include "source/list.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "systems/config_text.h"
#include "systems/system.h"
#include "target/open.h"

namespace shardc {
namespace {

namespace fs = std::filesystem;

// Larger files are data or programs.
constexpr int64_t kLongestConfig = int64_t{256} << 10;
constexpr size_t kMostOfFile = 64;  // configurations of a file
constexpr int64_t kMostFiles = 1'000'000;

constexpr std::array<std::string_view, 11> kEndings = {
    ".sh",   ".bash", ".slurm", ".sbatch",   ".yaml", ".yml",
    ".json", ".toml", ".py",    ".template", ".conf"};
constexpr std::array<std::string_view, 9> kLeftOut = {
    "node_modules", "site-packages", "__pycache__", "build", "dist",
    "venv",         "third_party",   "3rdparty",    "target"};

bool HasEnding(std::string_view name) {
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view one) { return name.ends_with(one); });
}

// Returns whether a file of Python is a test: `test_x.py`, `x_test.py`, or in a
// folder `tests` below the one that is searched.
bool IsTest(std::string_view path, size_t begin) {
  if (!path.ends_with(".py")) return false;
  path.remove_prefix(std::min(begin, path.size()));
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.starts_with("test_") || part.ends_with("_test.py") ||
        part == "tests" || part == "test" || part.ends_with("_tests")) {
      return true;
    }
    at = end + 1;
  }
  return false;
}

// Returns the pattern of a text.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!IsWordByte(c) && c != ' ' && c != '-' && c != '/') out += '\\';
    out += c;
  }
  return out;
}

bool HasText(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

// Adds the rules of other formats that a file has.
void AddRules(const std::string& file, std::string_view text,
              FoundConfigs& out) {
  const bool yaml = file.ends_with(".yaml") || file.ends_with(".yml");
  const bool sizes = HasText(text, "\nici_") || HasText(text, "\ndcn_");
  if (yaml && (HasText(text, "\nlogical_axis_rules:") ||
               (sizes && HasText(text, "_parallelism:")))) {
    out.configs.push_back({file, "maxtext", {}});
  }
  if (!file.ends_with(".py")) return;
  const bool specs =
      HasText(text, "PartitionSpec") || HasText(text, "ColumnWise");
  const bool rules = HasText(text, "partition_rules") ||
                     HasText(text, "PARTITION_RULES") ||
                     HasText(text, "logical_axis_rules");
  if (specs && rules) out.configs.push_back({file, "python", {}});
}

// Returns the system of a configuration: of those whose keys it has, the one
// that knows most of its keys. Returns null if there is none.
const systems::System* BestOf(const systems::ConfigText& text) {
  const systems::System* best = nullptr;
  size_t fewest = 0;
  for (const systems::System& system : systems::Systems()) {
    if (!systems::IsOf(system, text)) continue;
    size_t unknown = 0;
    for (const systems::Setting& setting : text.settings) {
      const bool known =
          system.FindKey(setting.key) != nullptr || system.IsOther(setting.key);
      if (!known) ++unknown;
    }
    if (best != nullptr && unknown >= fewest) continue;
    best = &system;
    fewest = unknown;
  }
  return best;
}

// Returns whether a function of Python states the size of an axis above 1 as a
// number. Others pass a value on.
bool StatesRanks(const systems::System& system,
                 const systems::ConfigText& text) {
  return std::any_of(
      text.settings.begin(), text.settings.end(),
      [&](const systems::Setting& setting) {
        const systems::SystemKey* key = system.FindKey(setting.key);
        if (key == nullptr || !IsAmong(key->name, system.marks)) return false;
        if (setting.values.empty() || !setting.values[0].unknown.empty()) {
          return false;
        }
        const std::string& value = setting.values[0].text;
        return !value.empty() && IsDigit(value[0]) && value != "1" &&
               value != "0";
      });
}

void AddSystems(const std::string& path, const std::string& file,
                std::string text, FoundConfigs& out) {
  const SourceRef source = MakeSource(path, std::move(text));
  Findings own;
  const auto texts = systems::ReadConfigTexts(source, own);
  const bool python = file.ends_with(".py");
  std::vector<const systems::System*> of;
  for (const systems::ConfigText& one : texts) of.push_back(BestOf(one));
  for (const systems::System& system : systems::Systems()) {
    // Commands with keys of parallelism, or else the first command.
    std::vector<const systems::ConfigText*> chosen;
    bool divides = false;
    for (const systems::ConfigText& one : texts) {
      if (of[static_cast<size_t>(&one - texts.data())] != &system) continue;
      const systems::Divides ranks = systems::DividesRanks(system, one);
      if (python && !StatesRanks(system, one)) continue;
      const bool keyed = ranks != systems::Divides::kNot;
      if (keyed && !divides) chosen.clear();
      divides = divides || keyed;
      if (keyed ? chosen.size() < kMostOfFile : chosen.empty()) {
        chosen.push_back(&one);
      }
    }
    for (const systems::ConfigText* one : chosen) {
      const bool several = chosen.size() > 1 && one->name.empty();
      out.configs.push_back(
          {file, system.name, one->name,
           several
               ? std::max<int64_t>(one->source->At(one->place.begin).line, 1)
               : 0,
           std::make_shared<const systems::ConfigText>(*one)});
    }
  }
  if (texts.empty() && own.HasErrors()) {
    out.unread.emplace_back(file, own.all().front().message);
  }
}

}  // namespace

std::optional<systems::Deployment> DeployFile(const ConfigOrigin& origin,
                                              bool lenient,
                                              Findings& findings) {
  const systems::System* system = systems::FindSystem(origin.system);
  if (system == nullptr) {
    std::vector<std::string> names;
    for (const systems::System& one : systems::Systems()) {
      names.push_back(one.name);
    }
    findings.Add(code::kReference, {},
                 "there is no system " + ShortQuote(origin.system),
                 DidYouMean(origin.system, names,
                            "the systems are " + ListInWords(names, Quote)));
    return std::nullopt;
  }
  const size_t before = findings.errors();
  const SourceRef source = ReadSource(origin.file, findings);
  if (source == nullptr) return std::nullopt;
  systems::Environment environment;
  constexpr std::string_view kVariable = "env.";
  for (const std::string& one : origin.set) {
    const size_t equals = one.find('=');
    if (!one.starts_with(kVariable) || equals == std::string::npos) continue;
    environment[one.substr(kVariable.size(), equals - kVariable.size())] =
        one.substr(equals + 1);
  }
  const auto text = systems::ReadConfig(*system, source, origin.symbol,
                                        findings, environment);
  systems::ConfigInputs inputs;
  inputs.devices = origin.devices;
  inputs.model = origin.model;
  inputs.families = origin.families;
  inputs.set = origin.set;
  inputs.lenient = lenient;
  if (!origin.manifest.empty()) {
    inputs.given_manifest = OpenManifest(origin.manifest, {}, findings);
  }
  if (!text || findings.errors() > before) return std::nullopt;
  return systems::Deploy(*system, *text, inputs, findings);
}

std::optional<systems::Deployment> DeployFound(const FoundConfig& found,
                                               const ConfigOrigin& origin,
                                               Findings& findings) {
  const systems::System* const system = systems::FindSystem(found.format);
  if (system == nullptr || found.text == nullptr) return std::nullopt;
  systems::ConfigInputs inputs;
  inputs.devices = origin.devices;
  inputs.model = origin.model;
  inputs.families = origin.families;
  inputs.lenient = true;
  return systems::Deploy(*system, *found.text, inputs, findings);
}

FoundConfigs FindConfigs(const std::string& folder) {
  FoundConfigs out;
  // One pass over a text finds a word of any system.
  std::string pattern;
  for (const systems::System& system : systems::Systems()) {
    for (const auto* words : {&system.words, &system.commands}) {
      for (const std::string& word : *words) {
        AppendItem(pattern, "|", Escaped(word));
      }
    }
  }
  Findings unused;
  const auto words = Regex::Compile({pattern, {}, '.'}, unused);
  std::error_code error;
  fs::recursive_directory_iterator at(
      folder.empty() ? "." : folder,
      fs::directory_options::skip_permission_denied, error);
  const fs::recursive_directory_iterator end;
  std::vector<std::string> files;
  for (; !error && at != end; at.increment(error)) {
    const std::string& whole = at->path().native();
    const std::string_view name =
        std::string_view(whole).substr(whole.rfind('/') + 1);
    std::error_code ignored;
    // The kind is that of the folder's entry, which needs no further call.
    if (at->is_directory(ignored)) {
      if (at->is_symlink(ignored) || name.starts_with('.') ||
          IsAmong(name, kLeftOut)) {
        at.disable_recursion_pending();
      }
      continue;
    }
    if (++out.files > kMostFiles) break;
    if (!HasEnding(name) || IsTest(whole, folder.size())) continue;
    if (!at->is_regular_file(ignored)) continue;
    const auto size = at->file_size(ignored);
    if (ignored || static_cast<int64_t>(size) > kLongestConfig) continue;
    files.push_back(at->path().lexically_normal().string());
  }
  std::sort(files.begin(), files.end());
  for (const std::string& path : files) {
    Findings ignored;
    const SourceRef source = ReadSource(path, ignored, kLongestConfig);
    if (source == nullptr) continue;
    const std::string_view text = source->text();
    const std::string file =
        folder.empty() ? path
                       : fs::path(path).lexically_relative(folder).string();
    AddRules(file, text, out);
    if (words && words->Found(text))
      AddSystems(path, file, std::string(text), out);
  }
  return out;
}

}  // namespace shardc
