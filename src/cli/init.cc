// `shardc init`: creates a project in a folder, from a checkpoint, a
// config.json or a manifest. All files are made and checked in memory and then
// written. The project is then read back and compiled in the usual way. If that
// fails, or if standard output cannot be written, all of these files are
// removed:
//
//   shardc init llama-3-8b/  ->  shardc.yaml, rules.yaml, llama-3-8b.plan.json,
//                                llama-3-8b.manifest.json, a workflow
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "cli/check_targets.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/compared_program.h"
#include "cli/file_set.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/program_plan.h"
#include "cli/suggested.h"
#include "cli/version.h"
#include "devices/serving.h"
#include "emit/emit.h"
#include "emit/plans/input_text.h"
#include "families/families.h"
#include "model/option_value.h"
#include "parse/config_fields.h"
#include "parse/project.h"
#include "plan/kv_layout.h"
#include "plan/mesh_purposes.h"
#include "program/facts.h"
#include "program/read.h"
#include "source/config_codes.h"
#include "source/digest.h"
#include "source/file.h"
#include "source/finding.h"
#include "source/input_file.h"
#include "source/json_writer.h"
#include "source/repository.h"
#include "source/source.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "systems/deployment.h"
#include "systems/system.h"
#include "target/choose.h"
#include "target/from_config.h"
#include "target/open.h"

namespace shardc::cli {
namespace {

// Finds the file of the running program. On Linux it is /proc/self/exe. This
// file may be missing (on macOS, or in a container without /proc). The name
// that the dynamic loader has for the program is then used. If this name has no
// slash, it is searched for in the folders of PATH, as the shell did:
//
//   `shardc` with PATH=/usr/bin:/opt/bin  ->  /opt/bin/shardc

// Reads the file of the running program. Returns null after a finding if the
// file cannot be found or read.
SourceRef ReadOwnProgram(Findings& findings);

// Returns the path of the first executable file of this name in the folders of
// PATH. Returns an empty text if there is none.
std::string FindInPath(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    // An empty entry of PATH is the current folder.
    const std::string file =
        folder.empty() ? name : std::string(folder) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
    rest.remove_prefix(colon == std::string_view::npos ? rest.size()
                                                       : colon + 1);
  }
  return {};
}

// Returns the name under which the dynamic loader started the program. Returns
// an empty string if the loader knows no name.
std::string LoadersName() {
  Dl_info info = {};
  const auto address = reinterpret_cast<const void*>(&ReadOwnProgram);
  const bool known = ::dladdr(address, &info) != 0;
  return known && info.dli_fname != nullptr ? info.dli_fname : "";
}

SourceRef ReadOwnProgram(Findings& findings) {
  std::string file = "/proc/self/exe";
  if (::access(file.c_str(), R_OK) != 0) {
    file = LoadersName();
    if (file.find('/') == std::string::npos) file = FindInPath(file);
  }
  return ReadSource(file, findings);
}

// Writes a CI workflow for GitHub that checks a project. The workflow installs
// the wheel of this version from the Python package index, and then runs the
// command `check`, with `--locked` if the project has committed plans. The
// workflow of a released program contains the SHA-256 digest of that program,
// and refuses a wheel whose program has another digest. No release has the
// digest of a local build: its workflow only names the digest in a comment.
// Actions are pinned by commit.
//
// A project may be a subfolder of a repository that already has a workflow
// shardc.yaml. The new file is then named after the project. For example, for
// the project llama in the folder models/llama:
//
//   shardc.yaml already exists  ->  .github/workflows/shardc-llama.yaml

namespace fs = std::filesystem;

constexpr std::string_view kPurpose =
    "# Checks the sharding of every change: no weights, no accelerator.\n#\n";

constexpr std::string_view kOfRelease =
    R"(# The program must have the SHA-256 of the one that wrote this file. After an
# upgrade, write the new version and `sha256sum $(command -v shardc)` below.
)";

constexpr std::string_view kOfLocalBuild =
    R"(# A local build wrote this file: the release of the same version is installed,
# and its program is compared with no digest. A released shardc pins it: remove
# the project and run `shardc init` of that program again. To run the local
# build itself, let the step `Install shardc` fetch it from where you keep it, and
# compare its SHA-256:
# )";

constexpr std::string_view kBeforeRunner = R"(name: sharding
on: [push, pull_request]
permissions:
  contents: read
jobs:
  check:
    runs-on: )";

constexpr std::string_view kBeforeInstall = R"(
    steps:
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683  # v4.2.2
        with:
          persist-credentials: false
      - name: Install shardc
)";

constexpr std::string_view kInstall = R"(        run: |
          python3 -m venv "$RUNNER_TEMP/shardc"
          "$RUNNER_TEMP/shardc/bin/pip" install --quiet \
            --disable-pip-version-check --only-binary :all: --no-deps shardc==)";

constexpr std::string_view kCompare = R"(
          echo "$SHARDC_SHA256  $RUNNER_TEMP/shardc/bin/shardc" |
            sha256sum --check --strict)";

// With `--locked` for a project that has committed plans.
constexpr std::string_view kBeforeLocked = R"(
      - name: Check
        run: '"$RUNNER_TEMP/shardc/bin/shardc" check )";

constexpr std::string_view kAfterLocked = R"(--format github'
)";

// GitHub's runner with the processor that this program is for, whose wheel has
// the program with the digest.
#ifdef __aarch64__
constexpr std::string_view kRunner = "ubuntu-24.04-arm";
#else
constexpr std::string_view kRunner = "ubuntu-24.04";
#endif

// Returns the SHA-256 of this program.
std::optional<std::string> OwnDigest(Findings& findings) {
  const SourceRef program = ReadOwnProgram(findings);
  if (program == nullptr) return std::nullopt;
  return Sha256(program->text());
}

// Returns a text as a value of a workflow. GitHub evaluates `${{ .. }}` in it,
// so a text that has this is itself written as an expression: a string in
// single quotes, in which each of its own is doubled.
std::string LiteralText(const std::string& text) {
  if (text.find("${{") == text.npos) return text;
  std::string quoted;
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return "${{ '" + quoted + "' }}";
}

// Whether a project has committed plans, or follows the configurations of other
// systems.
enum class ProjectKind : uint8_t { kCommitted, kFollowing };

// Returns the workflow file. `folder` is the project's folder, relative to the
// repository's root; empty for the root itself.
std::string WorkflowText(const std::string& digest, ProjectKind kind,
                         const std::string& folder) {
  std::string text(kPurpose);
  text += kIsRelease ? kOfRelease : kOfLocalBuild;
  if (!kIsRelease) text += digest + "\n";
  text += kBeforeRunner;
  text += kRunner;
  text += kBeforeInstall;
  if (kIsRelease) {
    text += "        env:\n          SHARDC_SHA256: " + digest + "\n";
  }
  text += kInstall;
  text += kVersion;
  if (kIsRelease) text += kCompare;
  text += kBeforeLocked;
  if (kind == ProjectKind::kCommitted) text += "--locked ";
  text += kAfterLocked;
  if (folder.empty() || folder == ".") return text;
  return text +
         "        working-directory: " + JsonString(LiteralText(folder)) + "\n";
}

// Returns the workflow for the project `name` in `folder`. In a repository, the
// file is below the repository's root, where CI services look for it. Outside
// of a repository it is below `folder`. Returns nullopt after a finding if the
// file of this program cannot be read, because the workflow contains its
// digest.
std::optional<NewFile> CheckWorkflow(const std::string& folder,
                                     const std::string& name, ProjectKind kind,
                                     Findings& findings) {
  const auto digest = OwnDigest(findings);
  if (!digest) return std::nullopt;
  std::error_code error;
  const fs::path here = fs::absolute(folder, error).lexically_normal() / "";
  const std::string found = RepositoryRoot(folder);
  const fs::path root = found.empty() ? here : fs::path(found);
  if (here.parent_path() == (root / "").parent_path()) {
    return NewFile{".github/workflows/shardc.yaml",
                   WorkflowText(*digest, kind, "")};
  }
  const fs::path workflows = root / ".github" / "workflows";
  fs::path file = workflows / "shardc.yaml";
  if (fs::symlink_status(file, error).type() != fs::file_type::not_found &&
      !LeftFiles::Of(folder).Holds(file.string())) {
    file = workflows / ("shardc-" + name + ".yaml");
  }
  const std::string below =
      here.parent_path().lexically_relative(root / "").generic_string();
  return NewFile{file.string(), WorkflowText(*digest, kind, below)};
}

namespace fs = std::filesystem;

struct InitFlags {
  InputFlags inputs;
  std::string source, folder = ".", naming, scan_axis;
  MeshFlags mesh;
};

// The inputs of the new project.
struct InitInputs {
  std::string name;  // the name of the target
  Manifest manifest;
  // The path of the manifest that the user named. It is empty if the user named
  // none, and `init` writes a manifest.
  std::string manifest_path;
  std::optional<ModelConfig> model;
  std::string model_path;
  // The program of the user's function, if the parameters are its own.
  std::optional<program::TracedProgram> traced;
};

bool IsConfig(const std::string& path) { return path.ends_with("config.json"); }

// Returns whether a JSON file such as llama.json has the content of a
// config.json: a `model_type`, which manifests lack.
bool HoldsConfig(const std::string& path) {
  if (!path.ends_with(".json")) return false;
  Findings unread;
  const auto document = ReadModelDocument(path, unread);
  if (document == nullptr) return false;
  const auto type = document->root().Find("model_type");
  return type && type->IsString();
}

// Returns a target's name from a path: `models/Llama 3/` -> `Llama-3`.
std::string NameOf(const std::string& source) {
  fs::path path = fs::path(source).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  std::string name = path.filename().string();
  if (IsConfig(name)) {
    const std::string stem = name.substr(0, name.size() - 11);
    const fs::path full = fs::absolute(path).lexically_normal();
    name = stem.empty() ? full.parent_path().filename().string() : stem;
  }
  for (const std::string_view end : {".gz", ".json", ".header", ".safetensors",
                                     ".index", ".manifest", ".program"}) {
    if (name.ends_with(end)) name.resize(name.size() - end.size());
  }
  if (name == "." || name == "..") {
    // `/a/b/.` is normalised to `/a/b/`, which has no file name.
    path = fs::absolute(path).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    name = path.filename().string();
  }
  std::string out;
  for (const char c : name) {
    const bool plain = IsWordByte(c) || c == '.';
    if (plain) {
      out += c;
    } else if (!out.empty() && out.back() != '-') {
      out += '-';
    }
  }
  while (!out.empty() && (out.back() == '-' || out.back() == '.')) {
    out.pop_back();
  }
  while (!out.empty() && out.front() == '.') out.erase(0, 1);
  return out.empty() ? "model" : out;
}

bool AllHaveShapes(const Manifest& manifest) {
  return !manifest.tensors.empty() &&
         std::all_of(manifest.types.begin(), manifest.types.end(),
                     [](const TensorType& type) { return type.shape; });
}

// Returns whether the folder has a checkpoint with the usual file names.
bool HoldsCheckpoint(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") ||
        name.ends_with(".safetensors.index.json")) {
      return true;
    }
  }
  return false;
}

// Reports that the source of a project does not exist. The help has what a
// reader of the file states, such as the nearest name.
void ReportMissingSource(const std::string& source, Findings& findings) {
  Findings missing;
  InputFile::Open(source, missing);
  std::string help =
      missing.all().empty() ? std::string() : missing.all().front().help;
  if (!help.empty()) help += "; ";
  findings.Add(code::kMissing, {},
               "there is no file or folder " + ShortQuote(source),
               help +
                   "give the folder of a checkpoint, a config.json, or a "
                   "manifest that the Python package of shardc wrote");
}

// Reads the inputs from the user's checkpoint, config.json or manifest. The
// parameters are those of the checkpoint or the manifest. If there is neither,
// or if a tensor has no shape, the parameters are built from the config.json.
// Returns nullopt after a finding.
std::optional<InitInputs> ReadInputs(const InitFlags& flags,
                                     Findings& findings) {
  InitInputs out;
  out.name = NameOf(flags.source);
  out.model_path = flags.inputs.asked.model;
  std::error_code error;
  std::string tree = flags.source;
  const fs::path source = flags.source;
  const bool folder = fs::is_directory(source, error);
  if (IsConfig(flags.source)) {
    out.model_path = flags.source;
    const fs::path parent =
        source.has_parent_path() ? source.parent_path() : fs::path(".");
    tree = HoldsCheckpoint(parent) ? parent.string() : "";
  } else if (out.model_path.empty() && HoldsConfig(flags.source)) {
    out.model_path = flags.source;
    tree.clear();
  } else if (folder && out.model_path.empty() &&
             fs::exists(source / "config.json", error)) {
    out.model_path = (source / "config.json").string();
    if (!HoldsCheckpoint(source)) tree.clear();
  }
  const size_t before = findings.errors();
  std::optional<Manifest> manifest;
  if (!out.model_path.empty()) {
    out.model = OpenModel(out.model_path, nullptr, findings);
  }
  if (!tree.empty()) manifest = LoadManifest(flags.inputs, tree, findings);
  if (findings.errors() > before) return std::nullopt;
  const bool shapes = manifest && AllHaveShapes(*manifest);
  if (!shapes && !out.model_path.empty()) {
    manifest = families::BuildTree(out.model_path, flags.naming, findings,
                                   flags.inputs.asked.families,
                                   {false, flags.inputs.asked.weights_dtype});
    tree.clear();
  }
  if (!manifest || !HasShapes(*manifest, findings)) return std::nullopt;
  if (out.model_path.empty()) {
    out.model = StatedModel(*manifest);
  } else {
    AddDescribed(out.model_path, flags.inputs.asked.families, *manifest);
    if (manifest->described) CompleteSizes(*manifest->described, *out.model);
  }
  out.manifest = std::move(*manifest);
  const bool file = !tree.empty() && !fs::is_directory(tree, error);
  if (file && !tree.ends_with(".safetensors")) out.manifest_path = tree;
  if (!file) return out;
  const SourceRef text = ReadSource(tree, findings);
  if (text == nullptr) return std::nullopt;
  if (!program::IsProgram(text)) return out;
  out.traced = ReadTracedFile(tree, findings);
  if (!out.traced) return std::nullopt;
  return out;
}

// Returns the path relative to the project's folder; empty if the path is
// outside of it.
std::string Inside(const std::string& folder, const std::string& path) {
  std::error_code error;
  const fs::path base = fs::weakly_canonical(folder, error);
  const fs::path full = fs::weakly_canonical(path, error);
  const std::string out = full.lexically_relative(base).generic_string();
  return out.empty() || out.starts_with("..") ? "" : out;
}

struct Rules {
  std::string text;
  std::string origin;  // how the rules were chosen, as text
  std::unique_ptr<const Compiled> compiled;
};

std::string PackText(const std::string& pack, const Mesh& mesh) {
  const AxisRules axes = PurposesOf(mesh).renamed;
  return "# Rules of this project. Rules in this file win over those of the "
         "pack.\nversion: 1\nextends: [" +
         pack + "]\n" + (axes == AxisRules() ? "" : AxesText(axes) + "\n") +
         "rules: []\n";
}

// Compiles the text of a rules file in the way in which `plan` will compile the
// written files.
std::unique_ptr<const Compiled> CompileText(const std::string& text,
                                            const Mesh& mesh,
                                            const InitInputs& inputs,
                                            Findings& findings) {
  const Manifest& manifest = inputs.manifest;
  const SourceRef source = MakeSource("rules.yaml", text);
  const std::string word = "builtin:init";
  auto rules = ReadRules(
      std::span(&word, 1),
      [&](std::string_view name) {
        return name == word ? source : FindPack(name, NamingOf(manifest));
      },
      findings);
  if (!rules) return nullptr;
  FitPacksToStacks(*rules, manifest);
  ChoosePackAxes(*rules, inputs.model ? &*inputs.model : nullptr, mesh);
  for (Rule& rule : rules->rules) {
    if (rule.place.source != nullptr) {
      rule.source_name = rule.place.source->name();
    }
  }
  CompileOptions options;
  options.config = SharedConfig(inputs.model);
  auto out = Compile(mesh, std::move(*rules), manifest, options, findings);
  if (out != nullptr) SetKv(inputs.model ? &*inputs.model : nullptr, *out);
  return out;
}

bool IsClean(const Compiled& compiled,
             const std::optional<ModelConfig>& model) {
  if (compiled.HasIllegal() || compiled.HasUnmatched()) return false;
  Findings ignored;
  const auto selection = Selection::Make(LintSettings{}, false, ignored);
  if (!selection) return false;
  LintFlags flags;
  flags.lists_names = false;
  const LintResult result = LintTarget({}, compiled, model, flags, *selection);
  return std::none_of(
      result.findings.begin(), result.findings.end(),
      [](const Finding& finding) { return finding.level != Level::kNote; });
}

// Returns the pack (built-in rules of a model family) that matches the names of
// parameters. If `check` reports errors or warnings for this pack on this mesh,
// returns suggested rules instead. Returns nullopt after a finding.
std::optional<Rules> RulesFor(const InitInputs& inputs, const Mesh& mesh,
                              const suggest::Preferences& preferences,
                              const Common& common, Findings& findings) {
  Rules out;
  const auto pack =
      PickPack(inputs.manifest, inputs.model ? inputs.model->model_type : "");
  if (pack) {
    Findings ignored;
    out.text = PackText(*pack, mesh);
    out.compiled = CompileText(out.text, mesh, inputs, ignored);
    out.origin = "the pack `" + *pack + "`";
    if (out.compiled != nullptr && IsClean(*out.compiled, inputs.model)) {
      return out;
    }
  }
  suggest::Preferences preferred = preferences;
  if (inputs.traced) {
    preferred.traced = &*inputs.traced;
    preferred.tensor_factors =
        FactorSearch(*inputs.traced, mesh, inputs.manifest)
            .Cheapest(preferred.divides_parts)
            .factors;
  }
  const auto made = SuggestFor(inputs.manifest, mesh, inputs.model, preferred,
                               common, "rules.yaml");
  PrintMessage(common, UnknownText(made) + UndecidedText(made));
  if (!made.Good()) {
    Refuse(made, mesh, inputs.model, common, findings);
    return std::nullopt;
  }
  out.origin = "suggested for this mesh";
  out.text = made.text;
  out.compiled = CompileText(out.text, mesh, inputs, findings);
  if (out.compiled == nullptr) return std::nullopt;
  return out;
}

std::vector<NewFile> FilesOf(const InitFlags& flags, const InitInputs& inputs,
                             const Mesh& mesh, const Rules& rules,
                             Findings& findings) {
  std::vector<NewFile> out;
  std::string manifest = inputs.manifest_path.empty()
                             ? ""
                             : Inside(flags.folder, inputs.manifest_path);
  if (manifest.empty()) {
    manifest = inputs.name + ".manifest.json";
    out.push_back({manifest, TextOf([&](Sink& sink) {
                     WriteManifestJson(inputs.manifest, sink);
                   })});
  }
  std::string model;
  if (!inputs.model_path.empty()) {
    model = Inside(flags.folder, inputs.model_path);
    if (model.empty()) {
      const SourceRef text = ReadSource(inputs.model_path, findings);
      if (text == nullptr) return {};
      model = inputs.name + ".config.json";
      out.push_back({model, std::string(text->text())});
    }
  }
  const std::string plan = inputs.name + ".plan.json";
  out.push_back({"rules.yaml", rules.text});
  out.push_back({plan, TextOf([&](Sink& sink) {
                   WritePlanJson(rules.compiled->plan, {}, sink);
                 })});
  auto workflow = CheckWorkflow(flags.folder, inputs.name,
                                ProjectKind::kCommitted, findings);
  if (!workflow) return {};
  out.push_back(std::move(*workflow));
  // The project file is written last, so that it exists only if all other files
  // exist.
  out.push_back(
      {"shardc.yaml",
       "# `shardc check --locked` compares the committed plan with what these "
       "inputs give;\n# `shardc plan --write-locked` updates the "
       "plan.\nversion: 1\ntargets:\n  " +
           JsonString(inputs.name) + ":\n    mesh:" + MeshYaml(mesh) +
           "    rules: [rules.yaml]\n    manifest: " + JsonString(manifest) +
           "\n" +
           (model.empty() ? "" : "    model: " + JsonString(model) + "\n") +
           "    plan: " + JsonString(plan) + "\n"});
  return out;
}

// Reads the written files as a project. Returns whether they compile to the
// written plan; if not, adds a finding.
bool Proven(const InitFlags& flags, const Common& common, Findings& findings) {
  TargetRequest asked;
  asked.project = (fs::path(flags.folder) / "shardc.yaml").string();
  const auto target = ChooseTarget(asked, findings);
  if (!target) return false;
  InputFlags inputs;
  inputs.asked = asked;
  inputs.header_only = flags.inputs.header_only;
  const auto compiled = LoadAndCompile(inputs, *target, common, findings);
  if (compiled == nullptr) return false;
  const SourceRef written = ReadSource(target->plan, findings);
  if (written == nullptr) return false;
  const std::string now =
      TextOf([&](Sink& sink) { WritePlanJson(compiled->plan, {}, sink); });
  if (written->text() == now) return true;
  findings.Add(code::kWrite, {written},
               "the written plan differs from what the project compiles to");
  return false;
}

// Returns the paths of the files, from the working directory.
Strings WrittenPaths(const InitFlags& flags,
                     const std::vector<NewFile>& files) {
  Strings out;
  for (const NewFile& file : files) {
    const fs::path path = fs::path(file.path).is_absolute()
                              ? fs::proximate(file.path)
                              : fs::path(flags.folder) / file.path;
    out.push_back(path.lexically_normal().string());
  }
  return out;
}

std::string DoneText(const InitFlags& flags, const Strings& paths,
                     const InitInputs& inputs, const Mesh& mesh,
                     const Rules& rules) {
  std::string out = "target      " + inputs.name + " on " + MeshWords(mesh) +
                    ", " + rules.origin + "\n";
  for (const std::string& path : paths) {
    out += "wrote       " + Printable(path) + "\n";
  }
  out += "\nNext:\n";
  if (flags.folder != ".") out += "  cd " + ShellWord(flags.folder) + "\n";
  return out +
         "  shardc check --locked          # what CI runs\n  shardc plan "
         "--diff             # what a change of rules changes\n  shardc plan "
         "--write-locked     # accepts that change\n";
}

void WriteDoneJson(const Strings& paths, const InitInputs& inputs,
                   const Mesh& mesh, const Rules& rules, Sink& out) {
  JsonWriter json(out);
  json.BeginObject(JsonLayout::kLines);
  json.Member("target", inputs.name);
  json.Key("mesh");
  WriteMesh(json, mesh);
  json.Members("rules", rules.origin, "pins_program", kIsRelease, "files",
               paths);
  json.EndObject();
  out.Append("\n");
}

// Writes a project whose targets follow the configurations of other systems
// that the folder has, and the workflow that checks it. A configuration that
// its system refuses is a target too, so that `check` fails until it is
// corrected. Another one from which no plan follows yet is a comment with the
// reason, which is printed as well.
int InitFromConfigs(const InitFlags& flags, const Common& common,
                    Findings& findings) {
  if (common.format == "json") {
    findings.Add(code::kUsage, {},
                 "the targets of found configurations are printed as text",
                 "leave out `--format json`, or name a SOURCE");
    return kFailed;
  }
  const FoundConfigs found = FindConfigs(flags.folder);
  std::string targets, comments, messages;
  std::set<std::string> names, files_of_commands;
  int64_t count = 0;
  for (const FoundConfig& one : found.configs) {
    if (systems::FindSystem(one.format) == nullptr) {
      if (one.format == "maxtext") {
        comments +=
            "#   Not planned yet: the rules of " + Printable(one.file) +
            " are over logical axes, which the parameters of a run have:\n"
            "#     shardc import maxtext " +
            Printable(ShellWord(one.file)) +
            " --names logical_shardings.json --mesh MESH\n";
      }
      continue;
    }
    // A target follows the first command of a file.
    if (one.line > 0 && !files_of_commands.insert(one.file).second) continue;
    ConfigOrigin origin;
    origin.system = one.format;
    origin.file = PathIn(flags.folder == "." ? "" : flags.folder, one.file);
    origin.symbol = one.symbol;
    if (!flags.inputs.devices.empty()) {
      origin.devices =
          ParseInteger("--devices", flags.inputs.devices, 1, findings);
      if (!origin.devices) return kFailed;
    }
    Findings own;
    const auto deployment = DeployFile(origin, false, own);
    findings.NoteReadsOf(own);
    // An engine serves, and its plan is that of decoding.
    const std::string modes =
        FindEngine(one.format) == nullptr ? "" : "    modes: [decode]\n";
    const bool planned = deployment && !own.HasErrors() &&
                         deployment->manifest &&
                         systems::RulesOf(*deployment, own).has_value();
    const bool refused = std::ranges::any_of(own.all(), [](const Finding& it) {
      return it.code == &code::kConfigRefused;
    });
    const std::string base =
        NameOf(fs::path(one.file).stem().string() +
               (one.symbol.empty() ? std::string() : "-" + one.symbol));
    std::string name = base;
    for (int i = 2; !names.insert(name).second; ++i) {
      name = base + "-" + std::to_string(i);
    }
    std::string text = JsonString(name) + ":\n";
    const std::string from =
        "    from: {" + one.format + ": " + JsonString(one.file) +
        (origin.devices ? ", devices: " + std::to_string(*origin.devices)
                        : std::string()) +
        (one.symbol.empty() ? std::string()
                            : ", symbol: " + JsonString(one.symbol)) +
        "}\n";
    if (planned || refused) {
      targets += "  " + text + from + modes;
      ++count;
    }
    if (planned) continue;
    const std::string why =
        own.HasErrors() ? own.all().front().message
        : deployment ? "what a rank holds is not known: " + deployment->no_model
                     : "its ranks are not known";
    messages += (refused ? "refused     " : "left out    ") +
                Printable(one.file) + ": " + Printable(why) + "\n";
    if (refused) continue;
    comments += "#   Not planned yet: " + Printable(why) + "\n#   " + text +
                "# " + from;
  }
  if (count == 0) {
    findings.Add(code::kUsage, {},
                 found.configs.empty()
                     ? "there is no configuration of a system in the folder"
                     : "no plan follows from the configurations of the folder",
                 found.configs.empty()
                     ? "name a checkpoint's folder, a config.json or a manifest"
                     : "`shardc check` lists them with what is missing; "
                       "`--devices N` gives the number of devices");
    return kFailed;
  }
  const auto workflow = CheckWorkflow(flags.folder, NameOf(flags.folder + "/."),
                                      ProjectKind::kFollowing, findings);
  if (!workflow) return kFailed;
  const std::vector<NewFile> files = {
      *workflow,
      {"shardc.yaml",
       "# Each target follows the configuration of another system. `shardc "
       "check` checks what runs.\nversion: 1\ntargets:\n" +
           targets + comments}};
  if (!AllAreNew(flags.folder, files, findings)) return kFailed;
  NewFileWriter writer(flags.folder);
  if (!writer.Write(files, findings)) return kFailed;
  const Strings paths = WrittenPaths(flags, files);
  const auto print = [&](Sink& out) {
    out.Append(
        messages + "wrote       " + Printable(paths[0]) + "\nwrote       " +
        Printable(paths[1]) + ": " + Counted(count, "target") + "\n\nNext:\n" +
        (flags.folder == "." ? std::string()
                             : "  cd " + ShellWord(flags.folder) + "\n") +
        "  shardc check                    # what CI runs\n");
  };
  if (!PutOut(print, findings)) return kFailed;
  writer.Keep();
  return kDone;
}

int RunInit(const InitFlags& flags, const Common& common, Findings& findings) {
  std::error_code error;
  const bool there = fs::is_directory(flags.folder, error);
  if (!there && fs::exists(fs::symlink_status(flags.folder, error))) {
    findings.Add(code::kWrite, {MakeSource(flags.folder, {})},
                 "`" + flags.folder + "` is not a folder",
                 "name another one with `--folder`");
    return kFailed;
  }
  if (!flags.source.empty() && !IsThere(flags.source, nullptr)) {
    ReportMissingSource(flags.source, findings);
    return kFailed;
  }
  // Files that already exist are reported first, before any long computation.
  if (!AllAreNew(flags.folder, {{"shardc.yaml", ""}, {"rules.yaml", ""}},
                 findings)) {
    return kFailed;
  }
  if (flags.source.empty()) return InitFromConfigs(flags, common, findings);
  const auto axis = ReadScanAxis(flags.scan_axis, findings);
  if (!axis) return kFailed;
  suggest::Preferences preferences;
  preferences.scan_axis = *axis;
  const auto inputs = ReadInputs(flags, findings);
  if (!inputs) return kFailed;
  std::optional<Mesh> mesh;
  if (!flags.inputs.asked.mesh.empty()) {
    TargetRequest asked = flags.inputs.asked;
    asked.no_project = true;
    const auto target = ChooseTarget(asked, findings);
    if (target) mesh = LoadMesh(flags.inputs, *target, findings);
    if (!mesh) return kFailed;
  } else {
    const auto picked =
        PickMesh(flags.mesh, flags.inputs.devices, inputs->manifest,
                 inputs->model, preferences, common, findings);
    if (!picked) return kFailed;
    if (picked->refused) return kFound;
    mesh = picked->mesh;
  }
  const auto rules = RulesFor(*inputs, *mesh, preferences, common, findings);
  if (!rules) return kFound;
  const auto files = FilesOf(flags, *inputs, *mesh, *rules, findings);
  if (files.empty() || !AllAreNew(flags.folder, files, findings)) {
    return kFailed;
  }
  NewFileWriter writer(flags.folder);
  if (!writer.Write(files, findings) || !Proven(flags, common, findings)) {
    return kFailed;
  }
  // If the summary cannot be printed, `writer` removes the project. The user
  // can then run the same command again.
  const Strings paths = WrittenPaths(flags, files);
  const auto print = [&](Sink& out) {
    if (common.format == "json") {
      return WriteDoneJson(paths, *inputs, *mesh, *rules, out);
    }
    out.Append(DoneText(flags, paths, *inputs, *mesh, *rules));
  };
  if (!PutOut(print, findings)) return kFailed;
  writer.Keep();
  return kDone;
}

Options OptionsOf(InitFlags& flags) {
  Options options = {{.name = "SOURCE",
                      .to = &flags.source,
                      .help = "a checkpoint's folder, a config.json or a "
                              "manifest (default: the configurations of "
                              "other systems in the folder)"}};
  Append(options, MeshInputs(flags.inputs));
  Append(options, MeshChoice(flags.mesh));
  Append(
      options,
      ModelInputs(flags.inputs,
                  "the model's config.json, if it is not in the checkpoint's "
                  "folder"));
  Append(
      options,
      Under(kInputsGroup,
            {{.name = "--naming",
              .to = &flags.naming,
              .value = "hf|hf-files|flax|easydel",
              .help =
                  "naming of the parameters that are built from a config.json",
              .checked = true},
             ScanAxisOption(&flags.scan_axis),
             {.name = "--header-only",
              .to = &flags.inputs.header_only,
              .help = "do not compare safetensors headers with the size of the "
                      "file"}}));
  Append(options,
         {{.name = "--folder",
           .need = HelpNeed::kMost,
           .to = &flags.folder,
           .value = "FOLDER",
           .help = "folder of the project, created if it does not exist "
                   "(default: the current one)"}});
  return options;
}

}  // namespace

Declared DeclareInit() { return Declare(OptionsOf, RunInit); }

}  // namespace shardc::cli
