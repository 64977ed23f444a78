// Explains unexpected words on the command line. An unexpected option is
// compared with the command's own options and then looked up in other commands.
// Any other word may be the axes of a mesh, a pack (built-in rules), or a file.
// The kind of a file is recognised by its first bytes.
//
//   shardc plan --manifst m.json  ->  did you mean `--manifest`?
//   shardc cost --zero-stage 1    ->  did you mean `--zero`?
//   shardc plan rules.yaml        ->  read as `--rules rules.yaml`
#include "cli/parser.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "cli/config_flags.h"
#include "devices/serving.h"
#include "model/name.h"
#include "parse/mesh.h"
#include "source/file.h"
#include "source/input_file.h"
#include "source/list.h"
#include "source/other_words.h"
#include "source/size.h"
#include "source/source.h"
#include "source/wording.h"
#include "systems/system.h"

namespace shardc::cli {
namespace {

constexpr size_t kPeekBytes = 64 << 10;

// A name in other programs, and what shardc has for the same purpose.
// The texts are arrays: a pointer would be relocated at each start.
struct OtherName {
  char other[40];
  char own[20];
};

// Commands of linters, compilers and infrastructure tools.
constexpr OtherName kOtherCommands[] = {
    {"lint", "check"},
    {"validate", "check"},
    {"fmt", "check --fix"},
    {"format", "check --fix"},
    {"fix", "check --fix"},
    {"compile", "plan"},
    {"build", "plan"},
    {"apply", "plan"},
    {"estimate", "cost"},
    {"memory", "show memory"},
    {"profile", "cost"},
    {"tune", "search"},
    {"autotune", "search"},
    {"optimize", "search"},
    {"new", "init"},
    {"prove", "verify"},
    {"test", "verify"},
    {"simulate", "verify"},
    {"run", "verify step"},
    {"inspect", "show"},
    {"view", "show"},
    {"convert", "export"},
    {"fit", "search --all"},
    {"status", "check"},
    {"verify-plan", "check"},
    {"analyze", "check"},
    {"analyse", "check"},
    {"get", "show"},
    {"describe", "show"},
    {"draw", "show"},
    {"plot", "report"},
    {"visualize", "report"},
    {"page", "report"},
    {"html", "report"},
    {"compare", "diff"},
    {"changes", "diff"},
    {"price", "cost"},
    {"time", "cost"},
    {"flops", "cost"},
    {"latency", "cost"},
    {"throughput", "cost"},
    {"mem", "show memory"},
    {"why", "explain"},
    {"solve", "search"},
    {"generate", "suggest"},
    {"infer", "suggest"},
    {"create", "init"},
    {"setup", "init"},
    {"start", "init"},
    {"demo", "example"},
    {"tutorial", "example"},
    {"server", "lsp"},
    {"language-server", "lsp"},
    {"serve", "search --serve"},
    {"pipeline", "schedule"},
    {"list", "checkpoint list"},
    {"ls", "checkpoint list"},
    {"save", "checkpoint split"},
    // These are looked for after the command `checkpoint` alone.
    {"inspect", "checkpoint list"},
    {"view", "checkpoint list"},
    {"info", "checkpoint list"},
    {"shard", "checkpoint split"},
    {"consolidate", "checkpoint merge"},
    {"join", "checkpoint merge"},
    {"combine", "checkpoint merge"},
    {"convert", "checkpoint reshard"},
    {"redistribute", "checkpoint reshard"},
};

// Options of Megatron-LM, DeepSpeed, MaxText, vLLM and transformers, in lower
// case, with `-` between words. Several may be meant where a command has the
// first.
constexpr OtherName kOtherOptions[] = {
    {"--seq-length", "--seq"},
    {"--seq-len", "--seq"},
    {"--sequence-length", "--seq"},
    {"--max-target-length", "--seq"},
    {"--max-seq-len", "--seq"},
    {"--max-model-len", "--seq"},
    {"--context-length", "--seq"},
    {"--batch-size", "--batch"},
    {"--global-batch-size", "--batch"},
    {"--train-batch-size", "--batch"},
    {"--max-num-seqs", "--batch"},
    {"--gradient-accumulation-steps", "--microbatches"},
    {"--num-microbatches", "--microbatches"},
    {"--num-pipeline-microbatches", "--microbatches"},
    {"--zero-stage", "--zero"},
    {"--recompute-granularity", "--remat"},
    {"--remat-policy", "--remat"},
    {"--activation-checkpointing", "--remat"},
    {"--gradient-checkpointing", "--remat"},
    {"--kv-cache-dtype", "--kv-dtype"},
    {"--quantize-kvcache", "--kv-dtype"},
    {"--config", "--model"},
    {"--hf-config", "--model"},
    {"--model-path", "--model"},
    {"--model-name", "--model"},
    {"--load", "--checkpoint"},
    {"--ckpt", "--checkpoint"},
    {"--ckpt-dir", "--checkpoint"},
    {"--checkpoint-dir", "--checkpoint"},
    {"--load-parameters-path", "--checkpoint"},
    {"--gpu", "--profile"},
    {"--hardware", "--profile"},
    {"--accelerator", "--profile"},
    {"--device-type", "--profile"},
    {"--hbm", "--memory"},
    {"--num-gpus", "--devices"},
    {"--gpus", "--devices"},
    {"--ngpus", "--devices"},
    {"--ngpu", "--devices"},
    {"--n-gpus", "--devices"},
    {"--n-devices", "--devices"},
    {"--num-chips", "--devices"},
    {"--chips", "--devices"},
    {"--nnodes", "--processes"},
    {"--num-nodes", "--processes"},
    {"--nodes", "--processes"},
    {"--hosts", "--processes"},
    {"--num-machines", "--processes"},
    {"--silent", "--quiet"},
    {"--show-fixes", "--diff"},
    {"--forward-time", "--times"},
    {"--backward-time", "--times"},
    {"--out", "--output"},
    {"--output-dir", "--output"},
    {"--outfile", "--output"},
    {"--save-dir", "--output"},
    {"--jobs", "--threads"},
    {"--workers", "--threads"},
    {"--num-workers", "--threads"},
    {"--input-len", "--isl"},
    {"--output-len", "--osl"},
    {"--max-tokens", "--osl"},
    {"--concurrency", "--slots"},
    {"--optim", "--optimizer"},
    {"--torch-dtype", "--dtype"},
    {"--precision", "--dtype"},
    {"--num-devices", "--devices"},
    {"--world-size", "--devices"},
    {"--nproc-per-node", "--devices"},
};

// Options that divide devices, and the axis of a mesh that does the same.
constexpr OtherName kParallelOptions[] = {
    {"--tp", "tp"},
    {"--tp-size", "tp"},
    {"--tensor-parallel-size", "tp"},
    {"--tensor-model-parallel-size", "tp"},
    {"--ici-tensor-parallelism", "tp"},
    {"--dp", "dp"},
    {"--dp-size", "dp"},
    {"--data-parallel-size", "dp"},
    {"--ici-data-parallelism", "dp"},
    {"--fsdp", "fsdp"},
    {"--ici-fsdp-parallelism", "fsdp"},
    {"--ep", "ep"},
    {"--expert-model-parallel-size", "ep"},
    {"--expert-parallel-size", "ep"},
    {"--ici-expert-parallelism", "ep"},
    {"--cp", "sp"},
    {"--sp", "sp"},
    {"--context-parallel-size", "sp"},
    {"--pp", "pp"},
    {"--pp-size", "pp"},
    {"--pipeline-parallel-size", "pp"},
    {"--pipeline-model-parallel-size", "pp"},
    {"--ici-pipeline-parallelism", "pp"},
    {"--ici-sequence-parallelism", "sp"},
};

// Returns what shardc has for a name of another program, if that begins with
// `prefix`; empty if the table does not have the name.
std::string_view OwnName(std::span<const OtherName> table,
                         std::string_view other, std::string_view prefix = {}) {
  std::string folded = FoldCase(other);
  std::replace(folded.begin(), folded.end(), '_', '-');
  for (const OtherName& row : table) {
    const std::string_view own = row.own;
    if (row.other == folded && own.starts_with(prefix)) return own;
  }
  return {};
}

// Returns the first bytes of a regular file, inflated. Returns an empty text
// for anything else.
std::string Peek(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  if (path.ends_with(".gz")) {
    Findings unreported;
    const SourceRef source = ReadSource(path, unreported);
    if (source != nullptr) {
      return std::string(source->text().substr(0, kPeekBytes));
    }
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kPeekBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(AsIndex(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

// Returns whether a line of a YAML text starts with `key:`.
bool HasKey(const std::string& text, const std::string& key) {
  return text.starts_with(key + ":") ||
         text.find("\n" + key + ":") != std::string::npos;
}

bool Contains(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

bool EndsWithAny(const std::string& word,
                 std::initializer_list<std::string_view> endings) {
  return std::any_of(
      endings.begin(), endings.end(),
      [&](std::string_view ending) { return word.ends_with(ending); });
}

// Returns whether the word is a mesh, such as `dp:2,tp=4`.
bool IsMeshWords(const std::string& word) {
  Findings unreported;
  return word.find_first_of(":=") != word.npos &&
         ParseMeshString(MakeSource(word, word), {}, unreported).has_value();
}

// Returns whether the text of a YAML file is a mesh.
bool IsMeshFile(const std::string& text) {
  // The product of the sizes of most meshes with an axis of -1 divides this.
  constexpr int64_t kDivided = int64_t{1024} * 27 * 5 * 7;
  Findings unreported;
  const SourceRef source = MakeSource("mesh", text);
  return ParseMesh(source, {}, unreported) ||
         ParseMesh(source, kDivided, unreported);
}

// The kind of a file of Python, in place of an option: none takes one.
constexpr std::string_view kPython = "Python";

// The options of which a word may be the value, the most likely first.
struct Recognised {
  std::vector<std::string_view> flags;
  bool sure = false;
};

Recognised Recognise(const std::string& word) {
  std::error_code error;
  if (IsPackName(word) || word == "auto") return {{"--rules"}, true};
  if (std::filesystem::is_directory(word, error)) {
    return {{"--checkpoint", "--manifest"}};
  }
  const std::string text = Peek(word);
  if (text.empty()) {
    if (IsMeshWords(word)) return {{"--mesh"}, true};
    const bool may =
        !word.starts_with('[') && word.find_first_of(":=") != word.npos;
    if (may) return {{"--mesh"}};
    return {};
  }
  if (EndsWithAny(word, {".yaml", ".yml"})) {
    if (HasKey(text, "targets")) return {{"--project"}, true};
    if (HasKey(text, "rules") || HasKey(text, "extends") ||
        HasKey(text, "bundles")) {
      return {{"--rules"}, true};
    }
    if (IsMeshFile(text)) return {{"--mesh"}, true};
    if (HasKey(text, "axes")) return {{"--mesh", "--rules"}};
    return {{"--rules"}};
  }
  if (EndsWithAny(word, {".safetensors", ".index.json"})) {
    return {{"--checkpoint", "--manifest"}, true};
  }
  if (word.ends_with(".py")) return {{kPython}, true};
  static constexpr std::pair<std::string_view, std::string_view> kContents[] = {
      {"\"shardc.plan/", "--plan"},
      {"\"shardc.program/", "--program"},
      {"\"shardc.manifest/", "--manifest"},
      {"\"model_type\"", "--model"},
      {"HloModule ", "--compiled"}};
  for (const auto& [contents, flag] : kContents) {
    if (Contains(text, contents)) return {{flag}, true};
  }
  return {{"--manifest"}};
}

// What a file is, the option that takes it, and how to get one. The texts are
// arrays: a pointer would be relocated at each start.
struct FileKind {
  char flag[12];
  char noun[32];
  char get[48] = {};
};
constexpr FileKind kFileKinds[] = {
    {"--mesh", "a mesh", "such as `--mesh dp:2,tp:4`"},
    {"--rules", "a rules file"},
    {"--project", "a project file"},
    {"--plan", "a plan", "which `shardc plan -o FILE` writes"},
    {"--program", "a traced program",
     "which `python -m shardc.program` writes"},
    {"--manifest", "a manifest"},
    {"--model", "a model's config.json"},
    {"--compiled", "the text of a compiled program"},
    {"Python", "a program in Python"},
};

const FileKind* KindOf(std::string_view flag) {
  const auto* const found = std::ranges::find_if(
      kFileKinds, [&](const FileKind& one) { return flag == one.flag; });
  return found == std::end(kFileKinds) ? nullptr : found;
}

// Other options and arguments that take files of these kinds.
struct AlsoTakes {
  char name[12];
  char flag[12];
};
constexpr AlsoTakes kAlsoTake[] = {
    {"--base", "--plan"},         {"--from", "--plan"},     {"--to", "--plan"},
    {"BEFORE", "--plan"},         {"AFTER", "--plan"},      {"PLAN", "--plan"},
    {"--reference", "--program"}, {"PROGRAM", "--compiled"}};

bool Has(std::span<const Option> options, std::string_view name) {
  return std::any_of(options.begin(), options.end(),
                     [&](const Option& option) { return option.name == name; });
}

std::string_view FirstWord(std::string_view name) {
  return name.substr(0, name.find(' '));
}

// Returns the first command, other than `own`, that has the option. If `first`
// is not empty, only commands with `first` as their first word are considered.
const Command* CommandWith(const std::string& flag, const Command& own,
                           std::string_view first) {
  for (const Command& command : Commands()) {
    const bool may = first.empty() || FirstWord(command.name) == first;
    if (&command != &own && may && Has(command.declare().options, flag)) {
      return &command;
    }
  }
  return nullptr;
}

// Returns help for an option of other programs. It names the options of shardc
// that serve the same purpose.
std::optional<std::string> HelpForForeign(std::string_view flag,
                                          std::span<const Option> options) {
  if (flag == "--verbose" || flag == "-v" || flag == "--debug") {
    for (const auto& [name, what] :
         {std::pair<std::string_view, std::string_view>{"--notes",
                                                        "prints the notes too"},
          {"--explain", "prints how the figures are computed"}}) {
      if (Has(options, name)) {
        return "`" + std::string(name) + "` " + std::string(what);
      }
    }
    return "every message is printed by default (`--quiet` prints errors "
           "alone); `shardc explain PARAM` prints how a parameter got its spec";
  }
  if (flag == "--json") return "write `--format json`";
  if (flag == "--dry-run" && Has(options, "--diff")) {
    return "`--diff` prints what would change and writes nothing";
  }
  const bool strict = flag == "--deny" || flag == "--strict" ||
                      flag == "--werror" || flag == "-W";
  if (strict && Has(options, "--fail-on")) {
    return "`--fail-on warning` exits with 1 for warnings as well";
  }
  return std::nullopt;
}

// Returns the option that is nearest to an unknown option. `--mode` is as near
// to `--model` as to `--modes`, so an option that differs only by a final `s`
// is preferred.
std::optional<std::string> NearestOption(const std::string& flag,
                                         const Strings& names) {
  for (const std::string& name : names) {
    if (name == flag + "s" || flag == name + "s") return name;
  }
  return Nearest(flag, names);
}

// Returns the advice for an option of one letter, such as `-f`: the options
// that begin with this letter and that most users need.
std::string SameLetter(const std::string& flag,
                       std::span<const Option> options) {
  if (flag.size() != 2 || flag.starts_with("--")) return {};
  const char letter = FoldCase(flag)[1];
  Strings same;
  for (const Option& option : options) {
    const bool is_one = option.name.starts_with("--") &&
                        option.need != HelpNeed::kSeldom &&
                        option.name[2] == letter;
    if (is_one) same.push_back(option.name);
  }
  if (same.empty()) return {};
  return "this command has no such letter: write " + Join(same, " or ", Quote);
}

// Returns the options that take a number and that most users need, for a number
// without its option.
Strings OptionsOfNumbers(std::span<const Option> options) {
  Strings out;
  for (const Option& option : options) {
    if (!option.IsArgument() && option.value == "N" &&
        option.need != HelpNeed::kSeldom) {
      out.push_back(option.name + " N");
    }
  }
  return out;
}

// Returns the options and arguments of a command that take a file of a kind
// that is recognised.
Strings FileOptions(std::span<const Option> options) {
  Strings out;
  for (const FileKind& one : kFileKinds) {
    if (Has(options, one.flag)) out.emplace_back(one.flag);
  }
  if (Has(options, "--checkpoint")) out.emplace_back("--checkpoint");
  for (const AlsoTakes& one : kAlsoTake) {
    if (Has(options, one.name)) out.emplace_back(one.name);
  }
  return out;
}

StrayWord AboutFlag(const std::string& word, const Command& command,
                    std::span<const Option> options) {
  const std::string flag = word.substr(0, word.find('='));
  const std::string own(command.name);
  Strings names;
  for (const Option& option : options) {
    if (!option.IsArgument()) names.push_back(option.name);
  }
  StrayWord out{"`" + own + "` has no option `" + flag + "`",
                "`shardc " + own + " --help` shows its options"};
  if (const auto help = HelpForForeign(flag, options)) {
    out.help = *help;
    return out;
  }
  const std::string_view axis = OwnName(kParallelOptions, flag);
  if (axis == "pp" && Has(options, "--mesh")) {
    out.help =
        "write it as an axis of the mesh, `--mesh pp:N` with the other axes, "
        "and divide the layers over it with " +
        std::string(Has(options, "--stages")
                        ? "`--stages pp`"
                        : "`stages: {axis: pp}` in the rules file");
    return out;
  }
  if (!axis.empty() && Has(options, "--mesh")) {
    out.help = "write it as an axis of the mesh: `--mesh " + std::string(axis) +
               ":N`, with the other axes";
    return out;
  }
  if (const std::string advice = HelpForOtherWord("option", flag);
      !advice.empty()) {
    out.help = advice;
    return out;
  }
  if (flag == "--program" && Has(options, "--manifest")) {
    out.help =
        "write `--manifest FILE`: the parameters of a traced program are read "
        "from it";
    return out;
  }
  if (const std::string same = SameLetter(flag, options); !same.empty()) {
    out.help = same;
    return out;
  }
  const std::string meant(OwnName(kOtherOptions, flag));
  if (!meant.empty() && Has(options, meant)) {
    out.help = "did you mean `" + meant + "`?";
    return out;
  }
  // Commands with the same first word are searched first: an unknown option of
  // `verify` is more likely an option of `verify step` than of another command.
  const Command* has = CommandWith(flag, command, FirstWord(command.name));
  if (has == nullptr) {
    if (const auto near = NearestOption(flag, names)) {
      out.help = "did you mean `" + *near + "`?";
      return out;
    }
    has = CommandWith(flag, command, {});
  }
  if (has == nullptr) return out;
  const bool related = FirstWord(has->name) == FirstWord(command.name);
  const Strings files = FileOptions(options);
  if (KindOf(flag) != nullptr && !related && !files.empty()) {
    out.help = "it takes the files of " + ListInWords(files, Quote);
    return out;
  }
  const Options others = has->declare().options;
  const auto other = std::ranges::find(others, flag, &Option::name);
  out.help = "`shardc " + std::string(has->name) + "` has it";
  if (other != others.end()) out.help += ": " + BriefHelp(*other);
  return out;
}

}  // namespace

StrayWord AboutCommand(const std::string& word) {
  if (word.empty()) {
    return {"no command is given", "`shardc --help` lists the commands"};
  }
  StrayWord out{"`" + word + "` is not a shardc command", {}};
  const std::string_view own = OwnName(kOtherCommands, word);
  if (!own.empty()) {
    out.help = "did you mean `shardc " + std::string(own) + "`?";
    return out;
  }
  Strings names;
  // `verify-step` is `verify step`.
  std::string spaced = FoldCase(word);
  std::ranges::replace_if(
      spaced, [](char c) { return c == '-' || c == '_'; }, ' ');
  for (const Command& command : Commands()) {
    const size_t space = command.name.find(' ');
    if (command.name == spaced) {
      out.help = "did you mean `shardc " + spaced + "`?";
      return out;
    }
    if (space == std::string_view::npos) {
      names.emplace_back(command.name);
    } else if (command.name.substr(space + 1) == word) {
      out.help = "did you mean `shardc " + std::string(command.name) + "`?";
      return out;
    }
  }
  out.help = DidYouMean(word, names,
                        "the commands are " + ListInWords(names, Quote) +
                            "; `shardc -h` has a line about each");
  return out;
}

StrayWord AboutLoneOption(const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  static const Strings kOwn = {"--version", "--help"};
  if (const auto near = Nearest(flag, kOwn)) {
    return {"`shardc` has no option `" + flag + "`",
            "did you mean `" + *near + "`?"};
  }
  for (const Command& command : Commands()) {
    if (!Has(command.declare().options, flag)) continue;
    return {"no command is given", "`shardc " + std::string(command.name) +
                                       "` has the option `" + flag +
                                       "`, which stands after the command"};
  }
  return {"no command is given", "`shardc --help` lists the commands"};
}

std::optional<std::string> OptionOfFile(const std::string& word,
                                        std::span<const Option> options,
                                        std::span<const std::string> given) {
  if (word.empty() || word.starts_with('-')) return std::nullopt;
  const Recognised recognised = Recognise(word);
  for (const std::string_view flag : recognised.flags) {
    if (recognised.sure && Has(options, flag)) return std::string(flag);
    const bool pair = flag == "--plan" && Has(options, "--from");
    if (pair && Has(options, "--to")) {
      return IsAmong("--from", given) ? "--to" : "--from";
    }
  }
  return std::nullopt;
}

void NameMistakenFiles(std::span<const GivenFile> files,
                       std::span<const Option> options, Findings& findings) {
  for (const GivenFile& file : files) {
    std::string_view takes = file.option;
    for (const auto& [option, flag] : kAlsoTake) {
      if (option == file.option) takes = flag;
    }
    const FileKind* const wanted = KindOf(takes);
    const Recognised is = Recognise(file.path);
    if (wanted == nullptr || !is.sure || IsAmong(takes, is.flags)) continue;
    const FileKind* const found = KindOf(is.flags.front());
    const bool other_plan = takes == "--plan" && found != nullptr &&
                            found->flag == std::string_view("--program");
    // A tree of parameters may be that of a traced program.
    const bool tree = takes == "--manifest" && found != nullptr &&
                      found->flag == std::string_view("--program");
    if (found == nullptr || other_plan || tree) continue;
    Findings kept;
    kept.NoteReadsOf(findings);
    size_t removed = 0;
    for (const Finding& one : findings.all()) {
      const bool of_file =
          one.place.source != nullptr && one.place.source->name() == file.path;
      // A reader may recognise the file itself.
      if (of_file && !one.message.starts_with("this is a ") &&
          !one.help.starts_with("this is a ")) {
        ++removed;
      } else {
        kept.Add(one);
      }
    }
    if (removed == 0) continue;
    std::string help = "give " + std::string(wanted->noun);
    if (wanted->get[0] != 0) help += ", " + std::string(wanted->get);
    if (found->flag == kPython && takes == "--rules") {
      help += ": `python -m shardc.import_python " + file.path +
              " -o rules.yaml` writes its lists of (pattern, PartitionSpec) as "
              "one";
    }
    if (Has(options, found->flag)) {
      help = "write `" + std::string(found->flag) + " " + file.path +
             "`, and " + help;
    }
    kept.Add(code::kSchema, {},
             ShortQuote(file.path) + " is " + std::string(found->noun) +
                 ", and " + Quote(file.option) + " takes " +
                 std::string(wanted->noun),
             std::move(help));
    findings = std::move(kept);
  }
}

// Returns the title of the training or serving system whose configuration the
// file has; an empty text if it has none.
std::string SystemWith(const std::string& file) {
  if (Recognise(file).sure || !IsThere(file, nullptr)) return {};
  Findings unread;
  const SourceRef source = ReadSource(file, unread);
  if (source == nullptr) return {};
  const systems::System* const system = SystemOfFile(source, unread);
  return system != nullptr ? system->title : std::string();
}

StrayWord AboutStray(const std::string& word, const Command& command,
                     std::span<const Option> options) {
  if (word.starts_with('-') && word.size() > 1) {
    return AboutFlag(word, command, options);
  }
  StrayWord out{
      "`" + word + "` is an unexpected argument",
      "`shardc " + std::string(command.name) + " --help` shows its options"};
  const std::string own_name = "shardc " + std::string(command.name);
  const std::string prefix = std::string(command.name) + " ";
  Strings seconds;
  for (const Command& other : Commands()) {
    if (other.name.starts_with(prefix)) {
      seconds.emplace_back(other.name.substr(prefix.size()));
    }
  }
  if (const auto near = Nearest(word, seconds)) {
    out.help = "did you mean `shardc " + prefix + *near + "`?";
    return out;
  }
  const std::string_view own = OwnName(kOtherCommands, word, prefix);
  if (!own.empty()) {
    out.help = "did you mean `shardc " + std::string(own) + "`?";
    return out;
  }
  if (Has(options, "--engine") && FindEngine(word) != nullptr) {
    out.help = "write `--engine " + word + "`";
    return out;
  }
  if (IsMeshWords(word) && word.find(',') == word.npos &&
      Has(options, "--mesh")) {
    out.help = "write `--mesh " + word +
               "`, with all axes of the mesh in one word, such as `--mesh "
               "fsdp:4,tp:2`";
    return out;
  }
  if (word == "help") {
    out.help =
        "did you mean `shardc " + std::string(command.name) + " --help`?";
    return out;
  }
  const bool is_number =
      !word.empty() && word.find_first_not_of("0123456789") == word.npos;
  if (const Strings numbers = OptionsOfNumbers(options);
      is_number && !numbers.empty()) {
    out.help =
        "a number has its option before it: " + Join(numbers, " or ", Quote);
    return out;
  }
  const auto axes = std::ranges::find(options, "AXES", &Option::name);
  if (axes != options.end()) {
    out.help = "write all axes as one argument, `" + own_name +
               " '[BATCH, SEQ, EMBED]'`";
    return out;
  }
  if (word.find('.') != std::string::npos && !IsThere(word, nullptr)) {
    out.message = "there is no file " + ShortQuote(word);
    Findings missing;
    InputFile::Open(word, missing);
    for (const Finding& one : missing.all()) {
      if (!one.help.empty()) out.help = one.help;
    }
    return out;
  }
  if (!seconds.empty() && Recognise(word).flags.empty()) {
    out.help = "the commands are " + ListInWords(seconds, [&](const auto& one) {
                 return "`shardc " + prefix + one + "`";
               });
    return out;
  }
  if (const std::string name = SystemWith(word); !name.empty()) {
    out.message = ShortQuote(word) + " is a configuration of " + name +
                  ", which " + Quote(command.name) + " does not take";
    out.help = "`shardc show config " + word +
               "` checks it and prints what each rank holds; `shardc check` "
               "without arguments finds those of a folder";
    return out;
  }
  for (const std::string_view flag : Recognise(word).flags) {
    if (!Has(options, flag)) continue;
    out.help = "write `" + std::string(flag) + " " + word + "`";
    return out;
  }
  const Recognised is = Recognise(word);
  const FileKind* const kind =
      is.sure ? KindOf(is.flags.front()) : static_cast<FileKind*>(nullptr);
  if (kind == nullptr) return out;
  const Strings taken = FileOptions(options);
  out.message = ShortQuote(word) + " is " + std::string(kind->noun) +
                ", which " + Quote(command.name) + " does not take";
  if (!taken.empty()) {
    out.help = "it takes the files of " + ListInWords(taken, Quote);
  }
  return out;
}

}  // namespace shardc::cli
