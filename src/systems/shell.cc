// Reads the commands of a shell script without running it. Assignments are
// followed in the order of the text, and variables and arrays are expanded:
//
//   TP=4; ARGS=(--tensor-model-parallel-size $TP); torchrun x.py ${ARGS[@]}
//     ->  torchrun x.py --tensor-model-parallel-size 4
//
// A variable that the text does not set, the output of a command, and a
// variable with different values in the branches of a condition are not known:
// the words that need them state why.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "source/utf8.h"
#include "source/wording.h"
#include "systems/config_text.h"

namespace shardc::systems {
namespace {

bool BeginsFlag(std::string_view text) {
  if (text.size() < 2 || text[0] != '-') return false;
  return !IsDigit(text[1]) && text[1] != '.' && text != "--";
}

// The limits on the words of one script, and on how deep expansions nest.
constexpr size_t kMostWords = 100000;
constexpr int kDeepestExpansion = 16;

struct Variable {
  std::string text;
  std::vector<Word> words;
  std::string unknown;
};

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool EndsCommand(char c) {
  return c == '\n' || c == ';' || c == '&' || c == '|' || c == ')' || c == '(';
}

// Returns whether a word is the beginning of a pipeline's layout, such as
// `Ett|t`. People write it without quotes where a program reads the script.
bool IsLayout(std::string_view word) {
  return word.starts_with('E') &&
         word.find_first_not_of("EtmL|()*,0123456789") ==
             std::string_view::npos;
}

class Reader {
 public:
  explicit Reader(SourceRef source) : source_(std::move(source)) {}

  std::vector<std::vector<Word>> Read(size_t begin, size_t end) {
    text_ = source_->text().substr(0, end);
    at_ = begin;
    while (at_ < text_.size() && words_ < kMostWords) {
      auto command = Command();
      if (!command.empty()) out_.push_back(std::move(command));
      if (at_ < text_.size()) ++at_;
    }
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

  void Comment() {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = text_.substr(at_, end - at_);
    for (const std::string_view scheduler : {"#SBATCH", "#FLUX:", "#PBS"}) {
      if (!line.starts_with(scheduler)) continue;
      const std::string_view rest = Trim(line.substr(scheduler.size()));
      if (rest.starts_with("--")) {
        options_.push_back({std::string(rest), At(at_, end), {}, false});
      }
    }
    at_ = end;
  }

  // Reads a command up to its end. Assignments are kept, and other words are
  // returned.
  std::vector<Word> Command() {
    std::vector<Word> words;
    for (;;) {
      Skip();
      if (at_ >= text_.size() || EndsCommand(text_[at_])) break;
      if (text_[at_] == '<' || text_[at_] == '>') {
        Redirect();
        continue;
      }
      if (Assigns(words)) continue;
      AppendWord(words);
      if (words_ >= kMostWords) break;
    }
    Note(words);
    return words;
  }

  void Redirect() {
    while (at_ < text_.size() && std::string_view("<>&-").find(text_[at_]) !=
                                     std::string_view::npos) {
      ++at_;
    }
    Skip();
    std::vector<Word> ignored;
    if (at_ < text_.size() && !EndsCommand(text_[at_])) AppendWord(ignored);
  }

  // Counts the conditions around a command.
  void Note(std::vector<Word>& words) {
    while (!words.empty()) {
      const std::string& first = words[0].text;
      if (first == "if" || first == "case") ++depth_;
      if ((first == "fi" || first == "esac") && depth_ > 0) --depth_;
      const bool keyword = first == "then" || first == "else" ||
                           first == "do" || first == "elif" ||
                           first == "exec" || first == "time" || first == "{";
      if (!keyword) break;
      words.erase(words.begin());
    }
    for (Word& word : words) word.conditional |= depth_ > 0;
    // A command that a condition guards is not in one branch of many.
    const bool has_flag = std::any_of(
        words.begin(), words.end(),
        [](const Word& word) { return word.text.starts_with("--"); });
    if (depth_ > 0 && has_flag) {
      for (Word& word : words) word.conditional = false;
    }
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
        if (words_ >= kMostWords) break;
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
      if (words_ >= kMostWords) break;
    }
    --depth_of_split_;
    text_ = all;
    at_ = back;
    return out;
  }

  // Keeps the flags of an earlier branch before those of a later one, so that
  // they are not known rather than absent.
  static void KeepFlags(const Variable& earlier, Variable& value) {
    const auto flag = [](const Word& word) { return BeginsFlag(word.text); };
    if (std::none_of(earlier.words.begin(), earlier.words.end(), flag) ||
        earlier.words.size() + value.words.size() > kMostWords) {
      return;
    }
    std::vector<Word> words = earlier.words;
    for (Word& word : words) word.unknown = value.unknown;
    words.insert(words.end(), value.words.begin(), value.words.end());
    value.words = std::move(words);
  }

  void Store(const std::string& name, Variable value, bool appends) {
    for (Word& word : value.words) word.conditional |= depth_ > 0;
    const auto known = variables_.find(name);
    if (appends && known != variables_.end()) {
      AppendItem(known->second.text, " ", value.text);
      auto& words = known->second.words;
      words.insert(words.end(), value.words.begin(), value.words.end());
      return;
    }
    if (depth_ > 0 && known != variables_.end() &&
        known->second.text != value.text) {
      value.unknown = "`" + name + "` is set in several branches of conditions";
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
    out.push_back(std::move(word));
    ++words_;
  }

  // Reads one word. Words before the last one of an unquoted expansion are
  // appended to `out`, if it is not null. Returns false for no word, as an
  // empty array expands to.
  bool ReadWord(Word& word, std::vector<Word>* out) {
    const size_t begin = at_;
    bool any = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool of_layout =
          (c == '|' || c == '(' || c == ')') && IsLayout(word.text);
      if (of_layout) {
        word.text += c;
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
        any = Expand(word, out, false) || any;
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
      Unknown(word, "the output of a command is not known");
      at_ = std::min(end + 1, text_.size());
      return true;
    }
    if (text_.substr(at_).starts_with("$((")) return Arithmetic(word);
    if (text_.substr(at_).starts_with("$(")) {
      SkipNested();
      Unknown(word, "the output of a command is not known");
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
        if (special == '@' || special == '*') return false;
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
    if (rest == "[@]" || rest == "[*]" || rest.empty()) {
      return Insert(name, word, out, joined);
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
      return true;
    }
    const auto known = variables_.find(name);
    if (known != variables_.end() && !known->second.text.empty()) {
      return Insert(name, word, out, joined);
    }
    // The value for a variable that is not set.
    if (++expansions_ > kDeepestExpansion) {
      --expansions_;
      Unknown(word, "expansions are nested too deeply");
      return true;
    }
    const std::string_view all = text_;
    const size_t back = at_;
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
    Word first = value.words.front();
    first.text.insert(0, word.text);
    if (!word.unknown.empty()) first.unknown = word.unknown;
    out->push_back(std::move(first));
    words_ += value.words.size();
    if (words_ >= kMostWords) return false;
    for (size_t i = 1; i + 1 < value.words.size(); ++i) {
      out->push_back(value.words[i]);
    }
    word = value.words.back();
    return true;
  }

  SourceRef source_;
  std::string_view text_;
  size_t at_ = 0;
  size_t words_ = 0;
  int depth_ = 0;  // the conditions around the command
  int depth_of_split_ = 0;
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
      if (!value && !word.unknown.empty() && word.text.starts_with('$')) {
        out.open.push_back(word);
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
                                             size_t begin, size_t end) {
  return Reader(source).Read(begin, end);
}

std::vector<ConfigText> ReadShell(const SourceRef& source) {
  Reader reader(source);
  auto commands = reader.Read(0, source->text().size());
  std::vector<ConfigText> out;
  for (auto& command : commands) {
    ConfigText one = CommandOf(std::move(command));
    if (one.settings.empty()) continue;
    out.push_back(std::move(one));
  }
  // Variables of the environment and options of the scheduler hold for all
  // commands.
  for (const Word& word : reader.Variables()) {
    const size_t equals =
        std::min(word.text.find_first_of("= "), word.text.size());
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
    for (ConfigText& one : out) one.settings.push_back(setting);
  }
  return out;
}

}  // namespace shardc::systems
