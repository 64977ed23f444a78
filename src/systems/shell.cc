// Reads the commands of a shell script without running it. Assignments are
// followed in the order of the text, and variables and arrays are expanded:
//
//   TP=4; ARGS=(--tensor-model-parallel-size $TP); torchrun x.py ${ARGS[@]}
//     ->  torchrun x.py --tensor-model-parallel-size 4
//
// A variable that the text does not set, the output of a command, and a
// variable with different values in the branches of a condition are not known:
// the words that need them state why. Files that the script sources by a path
// next to it are read for their variables.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "source/file.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "systems/config_text.h"
#include "systems/shell_branches.h"
#include "systems/system.h"

namespace shardc::systems {
namespace {

bool BeginsFlag(std::string_view text) {
  if (text.size() < 2 || text[0] != '-') return false;
  return !IsDigit(text[1]) && text[1] != '.' && text != "--";
}

// Returns whether an expansion without a value may be further flags rather than
// the value of one: `$@`, `${MORE[@]}`, `$EXTRA_ARGS`.
bool MayBeFlags(std::string_view text) {
  if (!text.starts_with('$')) return false;
  if (text == "$@" || text == "$*" || text.ends_with("[@]")) return true;
  const std::string name = FoldCase(text);
  constexpr std::string_view kWords[] = {"arg",   "opt", "flag",
                                         "extra", "cmd", "param"};
  return std::any_of(
      std::begin(kWords), std::end(kWords),
      [&](std::string_view one) { return name.find(one) != name.npos; });
}

// How deep expansions nest.
constexpr int kDeepestExpansion = 16;
// The limits on the files that a script sources.
constexpr int kDeepestFile = 4;
constexpr int kMostFiles = 32;
constexpr int64_t kLongestFile = int64_t{256} << 10;

struct Variable {
  std::string text;
  std::vector<Word> words;
  std::string unknown;
};

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool EndsCommand(char c) {
  return c == '\n' || c == ';' || c == '&' || c == '|' || c == ')' || c == '(';
}

// Returns whether a scheduler sets a variable: Slurm, or an operator that
// starts the processes of a job.
bool IsOfScheduler(std::string_view name) {
  return name.starts_with("SLURM_") || name == "WORLD_SIZE" ||
         name == "PET_NNODES";
}

// Returns what `eval` makes of a word: it removes the quotes and backslashes
// that the first reading left.
std::string Evaluated(std::string_view text) {
  std::string out;
  char quote = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\' && quote != '\'' && at + 1 < text.size()) {
      out += text[++at];
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      out += c;
    }
  }
  return out;
}

// Returns whether a word, whose first `known` bytes are of a layout, is the
// beginning of a pipeline's layout, such as `Ett|t`. People write it without
// quotes where a program reads the script.
bool IsLayout(std::string_view word, size_t known) {
  return word.starts_with('E') &&
         word.find_first_not_of("EtmL|()*,0123456789", known) ==
             std::string_view::npos;
}

class Reader {
 public:
  Reader(SourceRef source, TextWork& work, const Environment& environment)
      : source_(std::move(source)), script_(source_), work_(work) {
    for (const auto& [name, text] : environment) {
      const Word word{
          text, Place{MakeSource("--set", "env." + name)}, {}, false};
      variables_[name] = {text, {word}, {}};
      given_.insert(name);
    }
  }

  std::vector<std::vector<Word>> Read(size_t begin, size_t end) {
    ReadCommands(begin, end);
    return std::move(out_);
  }

  // Returns the variables as words NAME=VALUE, and the options of the
  // scheduler in comments.
  std::vector<Word> Variables() const {
    std::vector<Word> out = options_;
    for (const auto& [name, variable] : variables_) {
      const Place place =
          variable.words.empty() ? Place{source_} : variable.words[0].place;
      out.push_back(
          {name + "=" + variable.text, place, variable.unknown, false});
    }
    return out;
  }

 private:
  Place At(size_t begin, size_t end) const { return {source_, begin, end}; }

  // Skips blanks, continued lines and comments.
  void Skip() {
    while (at_ < text_.size()) {
      if (IsSpace(text_[at_])) {
        ++at_;
      } else if (text_.substr(at_).starts_with("\\\n")) {
        at_ += 2;
      } else if (text_.substr(at_).starts_with("\\\r\n")) {
        at_ += 3;
      } else if (text_[at_] == '#') {
        Comment();
      } else {
        break;
      }
    }
  }

  // Returns an option of the scheduler in its long form:
  //
  //   -N 4                 ->  --nodes 4
  //   --gres=gpu:a100:8    ->  --gpus-per-node 8
  static std::string SchedulerOption(std::string_view text) {
    constexpr std::string_view kGpus = "--gres=gpu:";
    if (text.starts_with(kGpus)) {
      return "--gpus-per-node " + std::string(text.substr(text.rfind(':') + 1));
    }
    if (text.starts_with("--")) return std::string(text);
    constexpr std::string_view kNodes = "-N";
    if (!text.starts_with(kNodes)) return {};
    std::string_view value = Trim(text.substr(kNodes.size()));
    if (value.starts_with('=')) value.remove_prefix(1);
    return "--nodes " + std::string(value);
  }

  // Sets the variables that the scheduler sets by one of its options.
  void SetOfScheduler(const Word& option) {
    constexpr std::pair<std::string_view, std::string_view> kVariables[] = {
        {"--nodes", "SLURM_JOB_NUM_NODES"},
        {"--nodes", "SLURM_NNODES"},
        {"--gpus-per-node", "SLURM_GPUS_PER_NODE"},
        {"--gpus-per-node", "SLURM_GPUS_ON_NODE"},
        {"--ntasks-per-node", "SLURM_NTASKS_PER_NODE"}};
    const size_t equals =
        std::min(option.text.find_first_of("= "), option.text.size());
    if (equals == option.text.size()) return;
    Word value = option;
    value.text = Trim(std::string_view(option.text).substr(equals + 1));
    for (const auto& [name, variable] : kVariables) {
      if (std::string_view(option.text).substr(0, equals) != name) continue;
      Store(std::string(variable), {value.text, {value}, {}}, false);
    }
  }

  void Comment() {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = text_.substr(at_, end - at_);
    for (const std::string_view scheduler : {"#SBATCH", "#FLUX:", "#PBS"}) {
      if (!line.starts_with(scheduler)) continue;
      std::string_view rest = line.substr(scheduler.size());
      rest = Trim(rest.substr(0, rest.find(" #")));
      const std::string option = SchedulerOption(rest);
      if (option.empty()) continue;
      options_.push_back({option, At(at_, end), {}, false});
      SetOfScheduler(options_.back());
    }
    at_ = end;
  }

  void ReadCommands(size_t begin, size_t end) {
    text_ = source_->text().substr(0, end);
    at_ = begin;
    while (at_ < text_.size() && !work_.exceeded()) {
      auto command = Command();
      if (!command.empty()) out_.push_back(std::move(command));
      if (at_ < text_.size()) ++at_;
    }
  }

  // Reads a command up to its end. Assignments are kept, and other words are
  // returned, if the command is run.
  std::vector<Word> Command() {
    std::vector<Word> words;
    bool assigns = false;
    bool evaluates = false;
    std::string here;  // the delimiter of a text that follows the line
    for (;;) {
      Skip();
      if (at_ >= text_.size() || EndsCommand(text_[at_])) break;
      if (text_[at_] == '<' || text_[at_] == '>') {
        if (!words.empty() && words[0].text.starts_with('[')) {
          words.push_back(
              {std::string(1, text_[at_]), At(at_, at_ + 1), {}, false});
          ++at_;
        } else {
          Redirect(here);
        }
        continue;
      }
      if (Assigns(words)) {
        assigns = true;
        continue;
      }
      const size_t begin = at_;
      AppendWord(words);
      const bool plain = words.size() == 1 && at_ > begin &&
                         words[0].text == text_.substr(begin, at_ - begin);
      if (plain && branches_.Keyword(words[0].text)) {
        evaluates = evaluates || words[0].text == "eval";
        words.clear();
      }
      if (work_.exceeded()) break;
    }
    const bool printed =
        !words.empty() && (words[0].text == "cat" || words[0].text == "tee");
    if (!here.empty() && printed) SkipHere(here);
    const Truth live = branches_.live();
    const bool test = branches_.Command(words, End(), assigns);
    if (test || live == Truth::kFalse) return {};
    if (Sources(words) || Reparses(words)) return {};
    if (evaluates) {
      for (Word& word : words) word.text = Evaluated(word.text);
    }
    // A command that a condition guards is not in one branch of many.
    const bool has_flag = std::any_of(
        words.begin(), words.end(),
        [](const Word& word) { return word.text.starts_with("--"); });
    if (live == Truth::kUnknown) {
      for (Word& word : words) word.conditional = !has_flag;
    }
    return words;
  }

  // Reads how the command ends, up to the last character of the sign.
  CommandEnd End() {
    if (at_ >= text_.size()) return CommandEnd::kOther;
    const std::string_view rest = text_.substr(at_);
    CommandEnd out = CommandEnd::kOther;
    if (rest.starts_with("&&") || rest.starts_with("||")) {
      out = rest[0] == '&' ? CommandEnd::kAnd : CommandEnd::kOr;
      ++at_;
    } else if (rest.starts_with(";;")) {
      ends_pattern_ = true;
    } else if (rest[0] == ';' && ends_pattern_) {
      ends_pattern_ = false;
      branches_.EndOfPattern();
    } else if (rest[0] == ')') {
      out = CommandEnd::kParenthesis;
    } else if (rest[0] == '|') {
      out = CommandEnd::kBar;
    }
    return out;
  }

  void Redirect(std::string& here) {
    const bool begins_here = text_.substr(at_).starts_with("<<") &&
                             !text_.substr(at_).starts_with("<<<");
    while (at_ < text_.size() && std::string_view("<>&-").find(text_[at_]) !=
                                     std::string_view::npos) {
      ++at_;
    }
    Skip();
    std::vector<Word> ignored;
    if (at_ < text_.size() && !EndsCommand(text_[at_])) AppendWord(ignored);
    if (begins_here && !ignored.empty()) here = ignored[0].text;
  }

  // Skips the lines up to one that has the delimiter alone.
  void SkipHere(std::string_view delimiter) {
    size_t line = std::min(text_.find('\n', at_), text_.size());
    while (line < text_.size()) {
      const size_t end = std::min(text_.find('\n', line + 1), text_.size());
      if (Trim(text_.substr(line + 1, end - line - 1)) == delimiter) {
        at_ = end;
        return;
      }
      line = end;
    }
  }

  // Reads the file of a command `source FILE`, if it is next to the script or
  // below its folder. Returns whether the words are such a command.
  bool Sources(const std::vector<Word>& words) {
    if (words.size() < 2) return false;
    if (words[0].text != "source" && words[0].text != ".") return false;
    const std::string& path = words[1].text;
    // A path that begins with the folder of the script has that folder.
    const bool whole = path.starts_with(FolderOf(script_->name()) + "/");
    if (!words[1].unknown.empty() || path.empty() ||
        (path[0] == '/' && !whole) || files_ >= kMostFiles ||
        depth_of_file_ >= kDeepestFile) {
      return true;
    }
    Findings unread;
    const SourceRef file = ReadSource(
        whole ? path : PathNextTo(script_->name(), path), unread, kLongestFile);
    if (file == nullptr) return true;
    ++files_;
    ++depth_of_file_;
    const SourceRef outer = std::exchange(source_, file);
    const std::string_view all = text_;
    const size_t back = at_;
    // Its commands are not those of this script.
    const auto commands = std::move(out_);
    ReadCommands(0, file->text().size());
    out_ = commands;
    source_ = outer;
    text_ = all;
    at_ = back;
    --depth_of_file_;
    return true;
  }

  static std::string FolderOf(const std::string& file) {
    const size_t slash = file.rfind('/');
    return slash == std::string::npos ? "." : file.substr(0, slash);
  }

  // Reads a text that is run as a script: `bash -c "python x.py --a 1"`, or
  // what follows `eval`. Returns whether the words have one.
  bool Reparses(const std::vector<Word>& words) {
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string& text = words[i].text;
      if (text.find(" -") == std::string::npos || depth_of_split_ > 2) continue;
      const bool option = i > 1 && words[i - 1].text.starts_with('-') &&
                          words[i - 1].text.ends_with('c') &&
                          words[i - 1].text.size() < 6;
      if (!option && (i > 0 || words.size() > 1)) continue;
      const SourceRef outer =
          std::exchange(source_, MakeSource(source_->name(), text));
      const std::string_view all = text_;
      const size_t back = at_;
      const size_t before = out_.size();
      ++depth_of_split_;
      ReadCommands(0, text.size());
      --depth_of_split_;
      for (size_t c = before; c < out_.size(); ++c) {
        for (Word& word : out_[c]) word.place = words[i].place;
      }
      source_ = outer;
      text_ = all;
      at_ = back;
      return true;
    }
    return false;
  }

  // Reads an assignment. Returns false if none follows.
  bool Assigns(const std::vector<Word>& before) {
    static constexpr std::string_view kPrefixes[] = {
        "export", "local", "declare", "readonly", "env", "-x", "then",
        "else",   "do",    "typeset", "-a",       ":",   "ENV"};
    const bool only_prefixes =
        std::all_of(before.begin(), before.end(), [&](const Word& word) {
          return std::find(std::begin(kPrefixes), std::end(kPrefixes),
                           word.text) != std::end(kPrefixes);
        });
    if (!only_prefixes) return false;
    size_t end = at_;
    while (end < text_.size() && IsWordByte(text_[end])) ++end;
    if (end == at_ || end >= text_.size() || IsDigit(text_[at_])) return false;
    const bool appends = text_.substr(end).starts_with("+=");
    if (!appends && text_[end] != '=') return false;
    const std::string name(text_.substr(at_, end - at_));
    at_ = end + (appends ? 2 : 1);
    Variable value = Value();
    Store(name, std::move(value), appends);
    return true;
  }

  Variable Value() {
    Variable out;
    if (at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      for (;;) {
        Skip();
        if (at_ >= text_.size() || text_[at_] == ')') break;
        if (EndsCommand(text_[at_])) {
          ++at_;
          continue;
        }
        AppendWord(out.words);
        if (work_.exceeded()) break;
      }
      if (at_ < text_.size()) ++at_;
      for (const Word& word : out.words) AppendItem(out.text, " ", word.text);
      return out;
    }
    const size_t begin = at_;
    Word whole{{}, At(begin, begin), {}, false};
    std::vector<Word> split;
    if (at_ < text_.size() && !IsSpace(text_[at_]) &&
        !EndsCommand(text_[at_])) {
      const size_t from = at_;
      ReadWord(whole, nullptr);
      const size_t to = at_;
      // The words inside of quotes keep their places.
      const bool quoted = to > from + 1 && text_[from] == text_[to - 1] &&
                          (text_[from] == '"' || text_[from] == '\'');
      if (quoted && whole.text.find_first_of(" \n\t") != std::string::npos &&
          depth_of_split_ < kDeepestExpansion) {
        split = Split(from + 1, to - 1);
      }
    }
    out.text = whole.text;
    out.unknown = whole.unknown;
    out.words = split.empty() ? std::vector<Word>{whole} : std::move(split);
    return out;
  }

  std::vector<Word> Split(size_t begin, size_t end) {
    const std::string_view all = text_;
    const size_t back = at_;
    text_ = text_.substr(0, end);
    at_ = begin;
    ++depth_of_split_;
    std::vector<Word> out;
    for (;;) {
      while (at_ < text_.size() &&
             (IsSpace(text_[at_]) || text_[at_] == '\n')) {
        ++at_;
      }
      Skip();
      if (at_ >= text_.size()) break;
      if (text_[at_] == '\n') continue;
      const size_t before = at_;
      AppendWord(out);
      if (at_ == before) ++at_;
      if (work_.exceeded()) break;
    }
    --depth_of_split_;
    text_ = all;
    at_ = back;
    return out;
  }

  // Keeps the flags of an earlier branch before those of a later one, so that
  // they are not known rather than absent.
  void KeepFlags(const Variable& earlier, Variable& value) {
    const auto flag = [](const Word& word) { return BeginsFlag(word.text); };
    if (std::none_of(earlier.words.begin(), earlier.words.end(), flag) ||
        !work_.Keeps(earlier.words.size(), earlier.text.size())) {
      return;
    }
    std::vector<Word> words = earlier.words;
    for (Word& word : words) word.unknown = value.unknown;
    words.insert(words.end(), value.words.begin(), value.words.end());
    value.words = std::move(words);
  }

  void Store(const std::string& name, Variable value, bool appends) {
    const Truth live = branches_.live();
    if (live == Truth::kFalse || given_.contains(name)) return;
    const bool maybe = live == Truth::kUnknown;
    for (Word& word : value.words) word.conditional |= maybe;
    const auto known = variables_.find(name);
    if (appends && known != variables_.end()) {
      AppendItem(known->second.text, " ", value.text);
      auto& words = known->second.words;
      words.insert(words.end(), value.words.begin(), value.words.end());
      return;
    }
    if (maybe && known != variables_.end() &&
        known->second.text != value.text) {
      value.unknown = "`" + name + "` is set in several branches of conditions";
      const std::string why = branches_.why();
      if (!why.empty()) value.unknown += ": " + why;
      for (Word& word : value.words) word.unknown = value.unknown;
      KeepFlags(known->second, value);
    }
    variables_[name] = std::move(value);
  }

  // Reads a word, which may become several by an expansion, or none.
  void AppendWord(std::vector<Word>& out) {
    const size_t begin = at_;
    Word word{{}, At(begin, begin), {}, false};
    const bool any = ReadWord(word, &out);
    if (at_ == begin) ++at_;  // a character that begins no word
    if (!any) return;
    if (word.place.end == word.place.begin) word.place = At(begin, at_);
    if (work_.Keeps(1, word.text.size())) out.push_back(std::move(word));
  }

  // Reads one word. Words before the last one of an unquoted expansion are
  // appended to `out`, if it is not null. Returns false for no word, as an
  // empty array expands to.
  bool ReadWord(Word& word, std::vector<Word>* out) {
    const size_t begin = at_;
    bool any = false;
    size_t layout = 0;  // bytes of the word that are known to be of one
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool of_layout =
          (c == '|' || c == '(' || c == ')') && IsLayout(word.text, layout);
      if (of_layout) {
        word.text += c;
        layout = word.text.size();
        ++at_;
        continue;
      }
      if (IsSpace(c) || EndsCommand(c) || c == '<' || c == '>') break;
      if (c == '\\') {
        if (at_ + 1 >= text_.size() || text_[at_ + 1] == '\n') break;
        word.text += text_[at_ + 1];
        at_ += 2;
        any = true;
      } else if (c == '\'') {
        const size_t end = std::min(text_.find('\'', at_ + 1), text_.size());
        word.text += text_.substr(at_ + 1, end - at_ - 1);
        at_ = std::min(end + 1, text_.size());
        any = true;
      } else if (c == '"') {
        any = Quoted(word, out) || any;
      } else if (c == '$' || c == '`') {
        const size_t before = out == nullptr ? 0 : out->size();
        any = Expand(word, out, false) || any;
        if (out != nullptr && out->size() != before) layout = 0;  // a new word
      } else {
        word.text += c;
        ++at_;
        any = true;
      }
    }
    if (any && word.place.begin == begin) word.place = At(begin, at_);
    return any;
  }

  bool Quoted(Word& word, std::vector<Word>* out) {
    ++at_;
    bool any = true;
    const size_t first = at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        if (text_[at_ + 1] != '\n') word.text += text_[at_ + 1];
        at_ += 2;
      } else if (text_[at_] == '$' || text_[at_] == '`') {
        const bool whole = at_ == first;
        const bool list =
            text_.substr(at_).starts_with("${") &&
            text_.substr(at_, 80).find("[@]}") != std::string_view::npos;
        const bool some = Expand(word, out, !list);
        if (whole && list && !some && at_ < text_.size() && text_[at_] == '"') {
          any = false;
        }
      } else {
        word.text += text_[at_++];
      }
    }
    if (at_ < text_.size()) ++at_;
    return any;
  }

  // Expands what follows a `$` or a backquote. With `joined`, a list is one
  // text. Returns whether there is any word.
  bool Expand(Word& word, std::vector<Word>* out, bool joined) {
    if (text_[at_] == '`') {
      const size_t end = std::min(text_.find('`', at_ + 1), text_.size());
      Output(word, at_ + 1, end);
      at_ = std::min(end + 1, text_.size());
      return true;
    }
    if (text_.substr(at_).starts_with("$((")) return Arithmetic(word);
    if (text_.substr(at_).starts_with("$(")) {
      const size_t begin = at_;
      SkipNested();
      Output(word, begin, at_);
      return true;
    }
    ++at_;
    if (at_ < text_.size() && text_[at_] == '{') {
      return Braced(word, out, joined);
    }
    size_t end = at_;
    while (end < text_.size() && IsWordByte(text_[end])) ++end;
    if (end == at_) {
      if (at_ < text_.size() && std::string_view("@*#?$!-").find(text_[at_]) !=
                                    std::string_view::npos) {
        const char special = text_[at_++];
        if (special == '@' || special == '*') {
          Unknown(word, std::string("`$") + special +
                            "` is the arguments of the script");
          word.text += std::string("$") + special;
          return true;
        }
        Unknown(word, std::string("`$") + special + "` has no value here");
        return true;
      }
      word.text += '$';
      return true;
    }
    const std::string name(text_.substr(at_, end - at_));
    at_ = end;
    return Insert(name, word, out, joined);
  }

  // Reads the output of a command. That of a command which finds the folder of
  // the script is known: `$(cd "$(dirname "$0")/.." && pwd)`.
  void Output(Word& word, size_t begin, size_t end) {
    const std::string_view command = text_.substr(begin, end - begin);
    const size_t folder = command.find("dirname");
    const bool own = command.find("BASH_SOURCE") != std::string_view::npos ||
                     command.find("$0") != std::string_view::npos;
    if (folder == std::string_view::npos || !own) {
      Unknown(word, "the output of a command is not known");
      word.text += "`command`";
      return;
    }
    word.text += FolderOf(source_->name());
    size_t at = command.find(')', folder);
    while (at < command.size() && (command[at] == ')' || command[at] == '"')) {
      ++at;
    }
    if (at < command.size() && command[at] == '/') {
      const size_t stop = command.find_first_of(" \t\n\"')&;", at);
      word.text += command.substr(at, stop - at);
    }
  }

  void SkipNested() {
    int open = 0;
    while (at_ < text_.size()) {
      if (text_[at_] == '(') ++open;
      if (text_[at_] == ')' && --open == 0) {
        ++at_;
        return;
      }
      ++at_;
    }
  }

  bool Braced(Word& word, std::vector<Word>* out, bool joined) {
    ++at_;
    int open = 1;
    size_t end = at_;
    for (; end < text_.size(); ++end) {
      if (text_[end] == '{') ++open;
      if (text_[end] == '}' && --open == 0) break;
    }
    const std::string_view inner = text_.substr(at_, end - at_);
    const size_t inner_begin = at_;
    at_ = std::min(end + 1, text_.size());
    size_t name_end = 0;
    while (name_end < inner.size() && IsWordByte(inner[name_end])) ++name_end;
    const std::string name(inner.substr(0, name_end));
    std::string_view rest = inner.substr(name_end);
    if (inner == "@" || inner == "*" || inner.starts_with("@:")) {
      Unknown(word,
              "`${" + std::string(inner) + "}` is the arguments of the script");
      word.text += "$@";
      return true;
    }
    const bool list = rest == "[@]" || rest == "[*]";
    if (list || rest.empty()) {
      const bool known = variables_.contains(name);
      const bool any = Insert(name, word, out, joined);
      if (list && !known) word.text += "[@]";
      return any;
    }
    size_t skip = 0;
    for (const std::string_view op : {":-", ":=", "-", "="}) {
      if (rest.starts_with(op)) {
        skip = op.size();
        break;
      }
    }
    if (skip == 0) {
      Unknown(word, "`${" + std::string(inner) + "}` is not read");
      word.text += "${" + std::string(inner) + "}";
      return true;
    }
    const auto known = variables_.find(name);
    if (known != variables_.end() && !known->second.text.empty()) {
      return Insert(name, word, out, joined);
    }
    // A scheduler sets its variables, so that the value for one that is not set
    // is not that of the job.
    if (IsOfScheduler(name)) {
      Unknown(word, "`$" + name + "` is set by the scheduler");
      word.text += "${" + std::string(inner) + "}";
      return true;
    }
    // The value for a variable that is not set.
    if (++expansions_ > kDeepestExpansion) {
      --expansions_;
      Unknown(word, "expansions are nested too deeply");
      return true;
    }
    const std::string_view all = text_;
    const size_t back = at_;
    const size_t before = word.text.size();
    at_ = inner_begin + name_end + skip;
    text_ = text_.substr(0, end);
    while (at_ < text_.size()) {
      if (text_[at_] == '"' || text_[at_] == '\'') {
        ++at_;
      } else if (text_[at_] == '$' || text_[at_] == '`') {
        Expand(word, nullptr, true);
      } else {
        word.text += text_[at_++];
      }
    }
    text_ = all;
    at_ = back;
    --expansions_;
    // `${A:=b}` sets the variable too.
    const bool assigns = skip > 0 && rest[skip - 1] == '=';
    if (assigns)
      Store(name, {word.text.substr(before), {word}, word.unknown}, false);
    return true;
  }

  bool Arithmetic(Word& word) {
    const size_t begin = at_ + 3;
    const size_t end = text_.find("))", begin);
    if (end == std::string_view::npos) {
      at_ = text_.size();
      return true;
    }
    const auto value = Compute(text_.substr(begin, end - begin));
    at_ = end + 2;
    if (value) {
      word.text += std::to_string(*value);
    } else {
      Unknown(word, "the value of `$((...))` is not known");
    }
    return true;
  }

  // Evaluates + - * / % of numbers and variables.
  std::optional<int64_t> Compute(std::string_view text) const {
    Sum sum{*this, text};
    auto value = sum.Read();
    return sum.at == text.size() ? value : std::nullopt;
  }

  struct Sum {
    const Reader& reader;
    std::string_view text;
    size_t at = 0;
    int depth = 0;

    void Skip() {
      while (at < text.size() &&
             (IsSpace(text[at]) || text[at] == '$' || text[at] == '{' ||
              text[at] == '}' || text[at] == '\n')) {
        ++at;
      }
    }
    std::optional<int64_t> Read() {
      auto left = Product();
      for (;;) {
        Skip();
        if (!left || at >= text.size() ||
            (text[at] != '+' && text[at] != '-')) {
          return left;
        }
        const char sign = text[at++];
        const auto right = Product();
        int64_t out = 0;
        if (!right ||
            (sign == '+' ? __builtin_add_overflow(*left, *right, &out)
                         : __builtin_sub_overflow(*left, *right, &out))) {
          return std::nullopt;
        }
        left = out;
      }
    }
    std::optional<int64_t> Product() {
      auto left = Primary();
      for (;;) {
        Skip();
        if (!left || at >= text.size() ||
            std::string_view("*/%").find(text[at]) == std::string_view::npos) {
          return left;
        }
        const char sign = text[at++];
        const auto right = Primary();
        int64_t out = 0;
        if (!right || (sign != '*' && *right <= 0)) return std::nullopt;
        if (sign == '*' && __builtin_mul_overflow(*left, *right, &out)) {
          return std::nullopt;
        }
        left = sign == '*'   ? out
               : sign == '/' ? *left / *right
                             : *left % *right;
      }
    }
    std::optional<int64_t> Primary() {
      Skip();
      if (at >= text.size() || ++depth > kDeepestExpansion * 4)
        return std::nullopt;
      if (text[at] == '(') {
        ++at;
        auto inner = Read();
        Skip();
        if (at >= text.size() || text[at] != ')') return std::nullopt;
        ++at;
        return inner;
      }
      const size_t begin = at;
      while (at < text.size() && IsWordByte(text[at])) ++at;
      std::string_view word = text.substr(begin, at - begin);
      if (word.empty()) return std::nullopt;
      if (!IsDigit(word[0])) {
        const auto known = reader.variables_.find(std::string(word));
        if (known == reader.variables_.end() ||
            !known->second.unknown.empty()) {
          return std::nullopt;
        }
        return NumberOf(known->second.text);
      }
      return NumberOf(word);
    }
    static std::optional<int64_t> NumberOf(std::string_view word) {
      if (word.empty()) return std::nullopt;
      int64_t number = 0;
      for (const char c : word) {
        if (!IsDigit(c) ||
            __builtin_mul_overflow(number, int64_t{10}, &number) ||
            __builtin_add_overflow(number, int64_t{c - '0'}, &number)) {
          return std::nullopt;
        }
      }
      return number;
    }
  };

  static void Unknown(Word& word, std::string why) {
    if (word.unknown.empty()) word.unknown = std::move(why);
  }

  bool Insert(const std::string& name, Word& word, std::vector<Word>* out,
              bool joined) {
    const auto known = variables_.find(name);
    if (known == variables_.end()) {
      const bool positional = std::all_of(name.begin(), name.end(),
                                          [](char c) { return IsDigit(c); });
      Unknown(word, positional ? "`$" + name + "` is an argument of the script"
                               : "`$" + name + "` has no value in this file");
      word.text += "$" + name;
      return true;
    }
    const Variable& value = known->second;
    if (!work_.Keeps(value.words.size(), value.text.size())) return false;
    if (joined || out == nullptr || value.words.size() == 1) {
      const bool alone = word.text.empty();
      word.text += value.text;
      if (!value.unknown.empty()) Unknown(word, value.unknown);
      for (const Word& one : value.words) {
        if (!one.unknown.empty()) Unknown(word, one.unknown);
        word.conditional |= one.conditional;
      }
      if (alone && !joined && value.words.size() == 1) {
        word.place = value.words[0].place;
      }
      return joined || !value.text.empty();
    }
    if (value.words.empty()) return !word.text.empty();
    if (HasBlank(value)) return InsertSplit(value, word, *out);
    Word first = value.words.front();
    first.text.insert(0, word.text);
    if (!word.unknown.empty()) first.unknown = word.unknown;
    out->push_back(std::move(first));
    for (size_t i = 1; i + 1 < value.words.size(); ++i) {
      out->push_back(value.words[i]);
    }
    word = value.words.back();
    return true;
  }

  // Returns whether an element of an array has several words, which an
  // expansion without quotes separates.
  static bool HasBlank(const Variable& value) {
    return std::any_of(
        value.words.begin(), value.words.end(), [](const Word& one) {
          return one.unknown.empty() &&
                 one.text.find_first_of(" \t\n") != std::string::npos;
        });
  }

  bool InsertSplit(const Variable& value, Word& word, std::vector<Word>& out) {
    std::vector<Word> parts;
    for (const Word& one : value.words) {
      if (!one.unknown.empty()) {
        parts.push_back(one);
        continue;
      }
      for (std::string_view rest = one.text; !rest.empty();) {
        const size_t begin =
            std::min(rest.find_first_not_of(" \t\n"), rest.size());
        const size_t end =
            std::min(rest.find_first_of(" \t\n", begin), rest.size());
        if (end > begin) {
          Word& part = parts.emplace_back(one);
          part.text = rest.substr(begin, end - begin);
        }
        rest.remove_prefix(end);
      }
    }
    if (parts.empty()) return !word.text.empty();
    parts.front().text.insert(0, word.text);
    if (!word.unknown.empty()) parts.front().unknown = word.unknown;
    if (!work_.Keeps(parts.size(), 0)) return false;
    word = std::move(parts.back());
    parts.pop_back();
    out.insert(out.end(), parts.begin(), parts.end());
    return true;
  }

  SourceRef source_;
  const SourceRef script_;  // source_ may be a file that it sources
  TextWork& work_;
  std::string_view text_;
  size_t at_ = 0;
  Branches branches_;
  bool ends_pattern_ = false;  // after the first `;` of `;;`
  int depth_of_split_ = 0;
  int depth_of_file_ = 0, files_ = 0;
  std::set<std::string> given_;  // variables that the user gives
  int expansions_ = 0;
  std::map<std::string, Variable> variables_;
  std::vector<Word> options_;
  std::vector<std::vector<Word>> out_;
};

}  // namespace

std::string NormalKey(std::string_view written) {
  while (written.starts_with('-')) written.remove_prefix(1);
  std::string out(written);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

ConfigText CommandOf(std::vector<Word> words) {
  ConfigText out;
  out.form = TextForm::kShell;
  Setting* last = nullptr;
  for (Word& word : words) {
    if (out.source == nullptr) {
      out.source = word.place.source;
      out.place = word.place;
    }
    if (!BeginsFlag(word.text)) {
      const bool value = last != nullptr && last->values.empty();
      if (!word.unknown.empty() && word.text.starts_with('$') &&
          (!value || MayBeFlags(word.text))) {
        out.open.push_back(word);
        if (value) continue;
      }
      if (last != nullptr) {
        last->values.push_back(std::move(word));
      } else {
        out.words.push_back(std::move(word.text));
      }
      continue;
    }
    Setting& setting = out.settings.emplace_back();
    const size_t equals = word.text.find('=');
    setting.written = word.text.substr(0, equals);
    setting.key = NormalKey(setting.written);
    setting.place = word.place;
    setting.conditional = word.conditional;
    last = &setting;
    if (equals == std::string::npos) {
      // A script, and what comes after it, follows flags of its launcher.
      continue;
    }
    word.text.erase(0, equals + 1);
    setting.values.push_back(std::move(word));
  }
  return out;
}

std::vector<std::vector<Word>> ShellCommands(const SourceRef& source,
                                             size_t begin, size_t end,
                                             TextWork& work,
                                             const Environment& environment) {
  return Reader(source, work, environment).Read(begin, end);
}

std::vector<ConfigText> ReadShell(const SourceRef& source, TextWork& work,
                                  const Environment& environment) {
  Reader reader(source, work, environment);
  auto commands = reader.Read(0, source->text().size());
  std::vector<ConfigText> out;
  for (auto& command : commands) {
    ConfigText one = CommandOf(std::move(command));
    if (one.settings.empty()) continue;
    out.push_back(std::move(one));
  }
  // Variables of the environment and options of the scheduler hold for all
  // commands. Those that no system reads are left out: scripts have many.
  auto variables = std::make_shared<Environment>();
  for (const Word& word : reader.Variables()) {
    const size_t equals =
        std::min(word.text.find_first_of("= "), word.text.size());
    const std::string name = word.text.substr(0, equals);
    if (!name.starts_with('-') && equals < word.text.size()) {
      (*variables)[name] = word.unknown.empty() ? word.text.substr(equals + 1)
                                                : "${" + name + "}";
    }
    Setting setting;
    setting.written = word.text.substr(0, equals);
    setting.key = NormalKey(setting.written);
    if (word.text.starts_with("--"))
      setting.key.insert(0, "scheduler.");
    else
      setting.key.insert(0, "env.");
    setting.place = word.place;
    if (equals < word.text.size()) {
      Word value = word;
      value.text.erase(0, equals + 1);
      setting.values.push_back(std::move(value));
    }
    const bool read = std::any_of(
        Systems().begin(), Systems().end(), [&](const System& system) {
          return system.FindKey(setting.key) != nullptr ||
                 std::any_of(system.elsewhere.begin(), system.elsewhere.end(),
                             [&](const Elsewhere& row) {
                               return row.key == setting.key;
                             });
        });
    if (!read || !work.Keeps(out.size(), out.size() * word.text.size())) {
      continue;
    }
    for (ConfigText& one : out) one.settings.push_back(setting);
  }
  for (ConfigText& one : out) one.variables = variables;
  return out;
}

}  // namespace shardc::systems
