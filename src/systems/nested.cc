// Reads configurations that are mappings: YAML, JSON, TOML, and Python whose
// calls and assignments have literal values. Keys of nested mappings are joined
// by dots:
//
//   zero_optimization: {stage: 3}                    -> zero_optimization.stage
//   [parallelism]  tensor_parallel_degree = 8        ->  parallelism.tensor_...
//   Config(parallelism=P(tensor_parallel_degree=8))  ->  parallelism.tensor_...
//
// A list of words in YAML that begin with dashes is a command line, as in the
// `args` of a container.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "source/json.h"
#include "source/utf8.h"
#include "source/wording.h"
#include "source/work.h"
#include "systems/config_text.h"
#include "yaml/yaml.h"

namespace shardc::systems {
namespace {

constexpr int kDeepestNesting = 64;

// Stands for the merge key `<<` in the text that is parsed, because the parser
// of our own files refuses that key.
constexpr std::string_view kMergeKey = "<<";
constexpr std::string_view kMergedKey = "~~";

// Replaces the merge keys of a YAML text. No other byte moves.
std::string WithMergedKeys(std::string_view text) {
  std::string out(text);
  for (size_t at = text.find(kMergeKey); at != std::string_view::npos;
       at = text.find(kMergeKey, at + kMergeKey.size())) {
    const size_t before = text.find_last_not_of(" \t", at - 1);
    const bool begins =
        at == 0 || before == std::string_view::npos ||
        std::string_view("\n{,-").find(text[before]) != std::string_view::npos;
    const size_t after = text.find_first_not_of(" \t", at + kMergeKey.size());
    if (begins && after != std::string_view::npos && text[after] == ':') {
      out.replace(at, kMergedKey.size(), kMergedKey);
    }
  }
  return out;
}

std::string JoinedKey(std::string_view path, std::string_view key) {
  const std::string normal = NormalKey(key);
  return path.empty() ? normal : std::string(path) + "." + normal;
}

// Adds a setting with one value.
void AddSetting(ConfigText& out, std::string key, std::string written,
                Place place, Word value, TextWork& work) {
  if (!work.Keeps(1, key.size() + written.size() + value.text.size())) return;
  Setting& setting = out.settings.emplace_back();
  setting.key = std::move(key);
  setting.written = std::move(written);
  setting.place = std::move(place);
  setting.values.push_back(std::move(value));
}

// Replaces references in the values of a mapping: `${a.b}` and `${.b}` to
// another key, and variables of the environment with the value that stands for
// one that is not set, `${TP:4}`, `${TP:-4}`, `${oc.env:TP,4}`. Other
// references are not known.
class References {
 public:
  References(ConfigText& text, TextWork& work, const Environment& environment)
      : text_(text), work_(work), environment_(environment) {}

  void Resolve() {
    for (Setting& setting : text_.settings) {
      for (Word& word : setting.values) {
        constexpr int kMostRounds = 8;
        for (int round = 0; round < kMostRounds; ++round) {
          if (!Replace(setting.key, word)) break;
        }
        if (word.unknown.empty() && word.text.find("${") != word.text.npos) {
          word.unknown = "its references follow one another without an end";
        }
      }
    }
  }

 private:
  // Replaces the first reference. Returns false if there is none.
  bool Replace(const std::string& key, Word& word) {
    // References inside of a reference come first.
    const size_t end = word.text.find('}');
    if (end == std::string::npos || !word.unknown.empty()) return false;
    const size_t begin = word.text.rfind("${", end);
    if (begin == std::string::npos) return false;
    const std::string inner = word.text.substr(begin + 2, end - begin - 2);
    const auto value = ValueOf(key, inner);
    if (!value) {
      word.unknown = "`${" + inner + "}` has no value in this file";
      return false;
    }
    if (!work_.Keeps(0, value->size())) return false;
    word.text.replace(begin, end + 1 - begin, *value);
    return true;
  }

  // Returns the product of numbers that commas separate.
  static std::optional<std::string> Product(std::string_view text) {
    int64_t out = 1;
    while (!text.empty()) {
      const size_t end = std::min(text.find(','), text.size());
      const std::string_view one = Trim(text.substr(0, end));
      int64_t number = 0;
      const auto read =
          std::from_chars(one.data(), one.data() + one.size(), number);
      if (read.ec != std::errc() || read.ptr != one.data() + one.size() ||
          __builtin_mul_overflow(out, number, &out)) {
        return std::nullopt;
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return std::to_string(out);
  }

  std::optional<std::string> ValueOf(const std::string& key,
                                     std::string inner) const {
    for (const std::string_view prefix : {"oc.env:", "env:"}) {
      if (inner.starts_with(prefix)) inner.erase(0, prefix.size());
    }
    const size_t sign = inner.find_first_of(":,");
    const std::string name = inner.substr(0, sign);
    if (name == "multiply" && sign != std::string::npos) {
      return Product(inner.substr(sign + 1));
    }
    const auto given = environment_.find(name);
    if (given != environment_.end()) return given->second;
    if (sign != std::string::npos) {
      const bool dash = inner.substr(sign).starts_with(":-");
      return inner.substr(sign + (dash ? 2 : 1));
    }
    std::string path = NormalKey(name);
    // Each dot at the beginning is the mapping around the key.
    for (std::string of = key; path.starts_with('.');) {
      const size_t dot = of.rfind('.');
      of = dot == std::string::npos ? "" : of.substr(0, dot);
      path.erase(0, 1);
      if (!path.starts_with('.')) path = of.empty() ? path : of + "." + path;
    }
    for (const Setting& other : text_.settings) {
      if (other.key == path && other.values.size() == 1) {
        return other.values[0].text;
      }
    }
    return std::nullopt;
  }

  ConfigText& text_;
  TextWork& work_;
  const Environment& environment_;
};

class YamlConfigs {
 public:
  YamlConfigs(const YamlDocument& document, TextWork& work,
              const Environment& environment)
      : document_(document), work_(work), environment_(environment) {}

  std::vector<ConfigText> Read() {
    whole_.form = TextForm::kYaml;
    whole_.source = document_.source();
    whole_.place = Place{document_.source()};
    Variables(document_.root(), 0);
    Node(document_.root(), "", {}, 0);
    References(whole_, work_, environment_).Resolve();
    std::vector<ConfigText> out;
    if (!whole_.settings.empty()) out.push_back(std::move(whole_));
    for (ConfigText& command : commands_) out.push_back(std::move(command));
    return out;
  }

 private:
  void Node(const YamlNode& node, const std::string& path, const YamlNode* key,
            int depth) {
    if (depth > kDeepestNesting || work_.exceeded()) return;
    if (node.IsMapping()) {
      Command(node);
      Merge(node, path, depth);
      for (const YamlMember& member : node.members) {
        if (member.key.text == kMergedKey) continue;
        Node(member.value, JoinedKey(path, member.key.text), &member.key,
             depth + 1);
      }
      return;
    }
    if (node.IsSequence()) {
      std::string text;
      bool plain = true;
      for (const YamlNode& item : node.items) {
        plain = plain && item.IsScalar();
        if (item.IsScalar()) AppendItem(text, ", ", item.text);
        if (item.IsMapping()) Node(item, path, key, depth + 1);
        if (item.IsScalar() && IsScript(item.text)) Shell(item);
      }
      if (plain && key != nullptr) {
        AddSetting(whole_, path, key->text, document_.PlaceOf(*key),
                   {"[" + text + "]", document_.PlaceOf(node), {}, false},
                   work_);
      }
      return;
    }
    if (key == nullptr) return;
    if (node.IsNull()) {
      AddSetting(whole_, path, key->text, document_.PlaceOf(*key),
                 {"null", document_.PlaceOf(*key), {}, false}, work_);
      return;
    }
    if (node.text.find(" --") != std::string::npos) Shell(node);
    AddSetting(whole_, path, key->text, document_.PlaceOf(*key),
               {node.text, document_.PlaceOf(node), {}, false}, work_);
  }

  // Adds the keys of the mappings that a mapping merges, `<<: *base`, but for
  // those that it has itself.
  void Merge(const YamlNode& node, const std::string& path, int depth) {
    const YamlNode* const merged = MemberOf(node, kMergedKey);
    if (merged == nullptr) return;
    const size_t before = whole_.settings.size();
    Node(*merged, path, nullptr, depth + 1);
    for (const YamlMember& member : node.members) {
      const std::string own = JoinedKey(path, member.key.text);
      const auto begin =
          whole_.settings.begin() + static_cast<std::ptrdiff_t>(before);
      whole_.settings.erase(
          std::remove_if(begin, whole_.settings.end(),
                         [&](const Setting& setting) {
                           return setting.key == own ||
                                  setting.key.starts_with(own + ".");
                         }),
          whole_.settings.end());
    }
  }

  // Returns whether a word of a container's command is a script of its own.
  static bool IsScript(std::string_view text) {
    return text.find('\n') != std::string_view::npos ||
           (!text.starts_with('-') &&
            text.find(" --") != std::string_view::npos);
  }

  // Keeps the variables of the lists `env` of containers:
  //
  //   env: [{name: TP, value: "4"}]
  void Variables(const YamlNode& node, int depth) {
    if (depth > kDeepestNesting) return;
    for (const YamlNode& item : node.items) Variables(item, depth + 1);
    for (const YamlMember& member : node.members) {
      Variables(member.value, depth + 1);
      if (member.key.text != "env") continue;
      for (const YamlNode& item : member.value.items) {
        const YamlNode* name = MemberOf(item, "name");
        const YamlNode* value = MemberOf(item, "value");
        const bool both = name != nullptr && value != nullptr &&
                          name->IsScalar() && value->IsScalar();
        if (both) environment_.emplace(name->text, value->text);
      }
    }
  }

  // Replaces `$(NAME)` in a word of a container's command.
  void Expand(Word& word) const {
    const size_t begin = word.text.find("$(");
    const size_t end = word.text.find(')', std::min(begin, word.text.size()));
    if (begin == std::string::npos || end == std::string::npos) return;
    const std::string name = word.text.substr(begin + 2, end - begin - 2);
    const auto known = environment_.find(name);
    if (known == environment_.end()) {
      word.unknown = "`$(" + name + ")` has no value in this file";
    } else {
      word.text.replace(begin, end + 1 - begin, known->second);
    }
  }

  // Replaces `$(NAME)`, which a container's manager does before a shell reads
  // the text.
  std::string WithVariables(std::string text) {
    for (const auto& [name, value] : environment_) {
      const std::string reference = "$(" + name + ")";
      for (size_t at = text.find(reference); at != std::string::npos;
           at = text.find(reference, at + value.size())) {
        if (!work_.Keeps(0, value.size())) return text;
        text.replace(at, reference.size(), value);
      }
    }
    return text;
  }

  // Reads a scalar that is shell text. The places of its words are those of the
  // scalar.
  void Shell(const YamlNode& node) {
    const SourceRef text =
        MakeSource(document_.source()->name(), WithVariables(node.text));
    Found found;
    for (auto& command :
         ShellCommands(text, 0, text->text().size(), work_, environment_)) {
      for (Word& word : command) word.place = PlaceIn(node, word, found);
      ConfigText one = CommandOf(std::move(command));
      if (one.settings.empty()) continue;
      one.source = document_.source();
      commands_.push_back(std::move(one));
    }
  }

  // The end of the last word of a scalar that was found in the file, and of its
  // place there.
  struct Found {
    size_t text = 0;
    size_t file = 0;
  };

  // Returns the place of a word in the file, or that of the scalar. A byte of
  // the scalar is at least as far from its beginning in the file.
  Place PlaceIn(const YamlNode& node, const Word& word, Found& found) const {
    const std::string_view own = word.place.source == nullptr
                                     ? std::string_view()
                                     : word.place.source->text();
    if (word.place.begin < word.place.end && word.place.end <= own.size()) {
      const std::string_view all =
          document_.source()->text().substr(0, node.end);
      const auto part =
          own.substr(word.place.begin, word.place.end - word.place.begin);
      size_t from = node.begin + word.place.begin;
      if (word.place.begin >= found.text) from = std::max(from, found.file);
      const size_t at = all.find(part, from);
      if (at != std::string_view::npos) {
        if (word.place.end > found.text) {
          found = {word.place.end, at + part.size()};
        }
        return {document_.source(), at, at + part.size()};
      }
    }
    return document_.PlaceOf(node);
  }

  // Reads the words of `command` and `args` of a container.
  void Command(const YamlNode& node) {
    std::vector<Word> words;
    bool flags = false;
    for (const std::string_view name : {"entrypoint", "command", "args"}) {
      const YamlNode* list = MemberOf(node, name);
      if (list == nullptr || !list->IsSequence()) continue;
      for (const YamlNode& item : list->items) {
        if (!item.IsScalar()) continue;
        flags = flags || item.text.starts_with("--");
        if (IsScript(item.text)) continue;
        Expand(words.emplace_back(
            Word{item.text, document_.PlaceOf(item), {}, false}));
      }
    }
    if (!flags) return;
    commands_.push_back(CommandOf(std::move(words)));
  }

  const YamlDocument& document_;
  TextWork& work_;
  Environment environment_;
  ConfigText whole_;
  std::vector<ConfigText> commands_;
};

// A document of a file that has several, which is parsed as a text of its own.
struct FilePart {
  SourceRef source;
  SourceRef file;
  size_t begin = 0;  // in the file

  // Moves a place of the part to the file.
  void Move(Place& place) const {
    if (place.source != source || source == file) return;
    place.source = file;
    place.begin += begin;
    place.end += begin;
  }

  void Move(ConfigText& text) const {
    text.source = file;
    Move(text.place);
    for (Setting& setting : text.settings) {
      Move(setting.place);
      for (Word& value : setting.values) Move(value.place);
    }
    for (Word& word : text.open) Move(word.place);
  }
};

// Reads each document of a YAML file, such as the manifests of several
// containers between lines `---`. An error in one refuses the file.
std::vector<ConfigText> ReadYaml(const SourceRef& source, TextWork& work,
                                 Findings& findings,
                                 const Environment& environment) {
  const std::string_view text = source->text();
  std::vector<size_t> begins = {0};
  for (size_t at = text.find("\n---"); at != std::string_view::npos;
       at = text.find("\n---", at + 1)) {
    begins.push_back(at + 1);
  }
  std::vector<ConfigText> out;
  for (size_t i = 0; i < begins.size(); ++i) {
    const size_t end = i + 1 < begins.size() ? begins[i + 1] : text.size();
    const std::string_view part = text.substr(begins[i], end - begins[i]);
    if (begins.size() > 1 && Trim(part).size() < 5) continue;
    const bool merges = part.find(kMergeKey) != std::string_view::npos;
    const SourceRef one =
        begins.size() > 1 || merges
            ? MakeSource(source->name(),
                         merges ? WithMergedKeys(part) : std::string(part))
            : source;
    const FilePart of_file{one, source, begins[i]};
    Findings own;
    const auto document = YamlDocument::Parse(one, own);
    if (!document) {
      for (Finding finding : own.all()) {
        of_file.Move(finding.place);
        findings.Add(std::move(finding));
      }
      return {};
    }
    for (ConfigText& read : YamlConfigs(*document, work, environment).Read()) {
      of_file.Move(read);
      out.push_back(std::move(read));
    }
  }
  return out;
}

class JsonConfig {
 public:
  JsonConfig(const JsonDocument& document, TextWork& work) : work_(work) {
    out_.form = TextForm::kJson;
    out_.source = document.source();
    out_.place = Place{document.source()};
    Members(document.root(), "");
  }
  std::vector<ConfigText> Take() {
    if (out_.settings.empty()) return {};
    return {std::move(out_)};
  }

 private:
  void Members(const JsonValue& value, const std::string& path) {
    if (!value.IsObject() || work_.exceeded()) return;
    for (const JsonMember member : value.members()) {
      const std::string key = JoinedKey(path, member.name());
      if (member.value.IsObject()) {
        Members(member.value, key);
        continue;
      }
      if (member.value.IsNull()) continue;
      const Place place = member.value.place();
      std::string text(
          place.source->text().substr(place.begin, place.end - place.begin));
      if (member.value.IsString()) text = member.value.string();
      AddSetting(out_, key, std::string(member.name()), member.key.place(),
                 {std::move(text), place, {}, false}, work_);
    }
  }

  TextWork& work_;
  ConfigText out_;
};

// Reads Python without running it: calls with keywords, assignments to
// attributes, and dictionaries whose values are literals.
class PythonReader {
 public:
  PythonReader(const SourceRef& source, TextWork& work)
      : source_(source), text_(source->text()), work_(work) {}

  std::vector<ConfigText> Read() {
    Begin("");
    size_t line_begin = 0;
    while (at_ < text_.size() && !work_.exceeded()) {
      line_begin = at_;
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      const std::string_view line = text_.substr(at_, end - at_);
      if (line.starts_with("def ") || line.starts_with("class ")) {
        const size_t name = line.find(' ') + 1;
        const size_t open = line.find_first_of("(:", name);
        Begin(std::string(
            line.substr(name, open == line.npos ? line.npos : open - name)));
        // The parameters of a function are no settings.
        if (line.starts_with("def ")) {
          SkipSignature();
          continue;
        }
      }
      Statement();
      if (at_ == line_begin) at_ = end + 1;
    }
    std::vector<ConfigText> out;
    std::map<std::string, std::vector<size_t>> by_name;
    for (ConfigText& one : out_) {
      // A function that begins with another one has its settings.
      const auto base = by_name.find(one.base);
      if (!one.base.empty() && base != by_name.end()) {
        for (const size_t earlier : base->second) Follow(out[earlier], one);
      }
      if (one.settings.empty()) continue;
      by_name[one.name].push_back(out.size());
      out.push_back(std::move(one));
    }
    return out;
  }

 private:
  void Follow(const ConfigText& base, ConfigText& one) {
    size_t bytes = 0;
    for (const Setting& setting : base.settings) {
      bytes += setting.key.size() + setting.written.size();
      for (const Word& value : setting.values) bytes += value.text.size();
    }
    if (!work_.Keeps(base.settings.size(), bytes)) return;
    one.settings.insert(one.settings.begin(), base.settings.begin(),
                        base.settings.end());
  }

  void Begin(std::string name) {
    ConfigText& one = out_.emplace_back();
    one.form = TextForm::kPython;
    one.source = source_;
    one.name = std::move(name);
    one.place = {source_, at_, std::min(at_ + 1, text_.size())};
  }

  void SkipSignature() {
    int open = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        SkipLine();
        continue;
      }
      if (c == '(' || c == '[') ++open;
      if (c == ')' || c == ']') --open;
      ++at_;
      if (c == ':' && open == 0) return;
    }
  }

  void SkipLine() { at_ = std::min(text_.find('\n', at_), text_.size()); }
  void SkipBlank(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        SkipLine();
      } else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n')) {
        ++at_;
      } else if (text_.substr(at_).starts_with("\\\n")) {
        at_ += 2;
      } else {
        break;
      }
    }
  }

  // Reads one statement up to its end: `a.b.c = value`, or an expression in
  // which keywords of calls may have values.
  void Statement() {
    SkipBlank(false);
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (IsWordByte(text_[at_]) || text_[at_] == '.')) {
      ++at_;
    }
    const std::string_view name = text_.substr(begin, at_ - begin);
    SkipBlank(false);
    // An annotation: `tp: int = 4`.
    if (!name.empty() && at_ < text_.size() && text_[at_] == ':') {
      const size_t stop = text_.find_first_of("=\n(", at_);
      if (stop != std::string_view::npos && text_[stop] == '=') at_ = stop;
    }
    const bool assigns = !name.empty() && at_ + 1 < text_.size() &&
                         text_[at_] == '=' && text_[at_ + 1] != '=';
    if (assigns) {
      ++at_;
      // The first name of `cfg.model.x` is a variable.
      const size_t dot = name.find('.');
      const std::string path =
          dot == std::string_view::npos ? "" : NormalKey(name.substr(dot + 1));
      const Place place{source_, begin, begin + name.size()};
      Value(path.empty() ? std::string(name) : path, std::string(name), place,
            path.empty(), 0);
      return;
    }
    at_ = begin;
    Expression("", 0);
    if (at_ < text_.size() && text_[at_] == '\n') ++at_;
  }

  // Reads a value. If it is a literal, it is a setting of `key`; keywords of a
  // call inside of it are settings below `key`. With `root`, the call is the
  // configuration itself.
  void Value(const std::string& key, std::string written, Place place,
             bool root, int depth) {
    SkipBlank(depth > 0);
    const size_t begin = at_;
    const size_t settings = out_.back().settings.size();
    const std::string inner = root ? "" : key;
    Expression(inner, depth);
    std::string_view text = Trim(text_.substr(begin, at_ - begin));
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
      text.remove_suffix(1);
    }
    if (root && text.ends_with("()")) {
      out_.back().base = text.substr(0, text.size() - 2);
      return;
    }
    const bool calls = text.find_first_of("({") != std::string_view::npos &&
                       !text.starts_with('[');
    const bool nested = out_.back().settings.size() > settings;
    if (nested || text.empty()) return;
    Word value{
        std::string(text), {source_, begin, begin + text.size()}, {}, false};
    const char quote = text.front();
    if ((quote == '"' || quote == '\'') && text.size() > 1 &&
        text.back() == quote) {
      value.text = text.substr(1, text.size() - 2);
    } else if (calls || !IsLiteral(text)) {
      value.unknown = "the value " + ShortQuote(text) + " is no literal";
    }
    AddSetting(out_.back(), key, std::move(written), std::move(place),
               std::move(value), work_);
  }

  static bool IsLiteral(std::string_view text) {
    if (text == "True" || text == "False" || text == "None") return true;
    if (text.empty()) return false;
    return IsDigit(text[0]) || text[0] == '-' || text[0] == '[';
  }

  // Skips an expression up to a comma, a closing bracket or, outside of
  // brackets, the end of the line. Reads the keywords of calls and the keys of
  // dictionaries in it.
  void Expression(const std::string& path, int depth) {
    if (depth > kDeepestNesting) {
      SkipLine();
      return;
    }
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n' && depth == 0) return;
      if (c == ',' || c == ')' || c == ']' || c == '}') {
        if (depth > 0) return;
        ++at_;
      } else if (c == '#') {
        SkipLine();
      } else if (c == '"' || c == '\'') {
        SkipString();
      } else if (c == '(' || c == '{' || c == '[') {
        Bracket(path, depth + 1);
      } else {
        ++at_;
      }
    }
  }

  void Bracket(const std::string& path, int depth) {
    const char open = text_[at_++];
    const char close = open == '(' ? ')' : open == '{' ? '}' : ']';
    while (at_ < text_.size()) {
      SkipBlank(true);
      if (at_ >= text_.size()) return;
      if (text_[at_] == close) {
        ++at_;
        return;
      }
      if (text_[at_] == ',') {
        ++at_;
        continue;
      }
      const size_t begin = at_;
      Item(path, open, depth);
      if (at_ == begin) ++at_;
    }
  }

  void Item(const std::string& path, char open, int depth) {
    const size_t begin = at_;
    std::string name;
    if (open == '{' && (text_[at_] == '"' || text_[at_] == '\'')) {
      SkipString();
      name = text_.substr(begin + 1, at_ - begin - 2);
    } else {
      while (at_ < text_.size() && IsWordByte(text_[at_])) ++at_;
      name = text_.substr(begin, at_ - begin);
    }
    const Place place{source_, begin, at_};
    SkipBlank(true);
    const char sign = open == '{' ? ':' : '=';
    const bool keyed = !name.empty() && at_ + 1 < text_.size() &&
                       text_[at_] == sign && text_[at_ + 1] != '=' &&
                       open != '[';
    if (!keyed) {
      at_ = begin;
      Expression(path, depth);
      return;
    }
    ++at_;
    Value(JoinedKey(path, name), name, place, false, depth);
  }

  void SkipString() {
    const char quote = text_[at_];
    const std::string triple(3, quote);
    if (text_.substr(at_).starts_with(triple)) {
      const size_t end = text_.find(triple, at_ + 3);
      at_ = end == std::string_view::npos ? text_.size() : end + 3;
      return;
    }
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\n') return;
      if (text_[at_] == '\\') ++at_;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  SourceRef source_;
  std::string_view text_;
  size_t at_ = 0;
  TextWork& work_;
  std::vector<ConfigText> out_;
};

}  // namespace

// Reads sections, dotted keys and values of one line or of several in brackets.
std::vector<ConfigText> ReadToml(const SourceRef& source, TextWork& work,
                                 Findings& findings) {
  const std::string_view text = source->text();
  ConfigText out;
  out.form = TextForm::kToml;
  out.source = source;
  out.place = Place{source};
  std::string section;
  for (size_t at = 0; at < text.size() && !work.exceeded();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = Trim(text.substr(at, end - at));
    while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const size_t begin = at;
    at = end + 1;
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      const size_t close = line.find(']');
      if (close == std::string_view::npos) {
        findings.Add(code::kForeignSyntax, {source, begin, end},
                     "the name of a section does not end in `]`");
        return {};
      }
      std::string_view name = line.substr(1, close - 1);
      while (name.starts_with('[')) name.remove_prefix(1);
      section = NormalKey(Trim(name));
      continue;
    }
    const size_t equals = text.find('=', begin);
    if (equals == std::string_view::npos || equals > end) {
      findings.Add(
          code::kForeignSyntax, {source, begin, end},
          "a line of TOML has neither a section nor a key and a value");
      return {};
    }
    std::string_view key = Trim(text.substr(begin, equals - begin));
    if (key.size() > 1 && key.front() == '"')
      key = key.substr(1, key.size() - 2);
    size_t value = equals + 1;
    while (value < text.size() && (text[value] == ' ' || text[value] == '\t')) {
      ++value;
    }
    size_t stop = value;
    std::string inner;
    const char first = value < text.size() ? text[value] : '\n';
    if (first == '"' || first == '\'') {
      const std::string triple(3, first);
      const bool long_text = text.substr(value).starts_with(triple);
      const size_t skip = long_text ? 3 : 1;
      stop = long_text ? text.find(triple, value + 3)
                       : text.find(first, value + 1);
      if (stop == std::string_view::npos) {
        findings.Add(code::kForeignSyntax, {source, value, value + 1},
                     "a string has no closing quote");
        return {};
      }
      inner = text.substr(value + skip, stop - value - skip);
      stop += skip;
      at = std::max(at, std::min(text.find('\n', stop), text.size()) + 1);
    } else if (first == '[' || first == '{') {
      int open = 0;
      for (; stop < text.size(); ++stop) {
        if (text[stop] == '[' || text[stop] == '{') ++open;
        if ((text[stop] == ']' || text[stop] == '}') && --open == 0) break;
      }
      stop = std::min(stop + 1, text.size());
      inner = text.substr(value, stop - value);
      at = std::max(at, std::min(text.find('\n', stop), text.size()) + 1);
    } else {
      stop = std::min(text.find_first_of("#\n\r", value), text.size());
      inner = Trim(text.substr(value, stop - value));
      std::erase(inner, '_');
    }
    const size_t key_at = text.find(key, begin);
    AddSetting(out, JoinedKey(section, key), std::string(key),
               {source, key_at, key_at + key.size()},
               {std::move(inner), {source, value, stop}, {}, false}, work);
  }
  if (out.settings.empty()) return {};
  return {std::move(out)};
}

std::vector<ConfigText> ReadPython(const SourceRef& source, TextWork& work) {
  return PythonReader(source, work).Read();
}

bool TextWork::Keeps(size_t count, size_t bytes) {
  if (exceeded_) return false;
  count_ = count_ + Size(static_cast<int64_t>(count));
  bytes_ = bytes_ + Size(static_cast<int64_t>(bytes));
  constexpr std::string_view kSubject = "this file expands to";
  exceeded_ =
      !Allows(kConfigWords, count_, kSubject, Place{source_}, findings_) ||
      !Allows(kConfigBytes, bytes_, kSubject, Place{source_}, findings_);
  return !exceeded_;
}

TextForm FormOf(std::string_view file, std::string_view text) {
  constexpr std::pair<std::string_view, TextForm> kEndings[] = {
      {".yaml", TextForm::kYaml}, {".yml", TextForm::kYaml},
      {".json", TextForm::kJson}, {".toml", TextForm::kToml},
      {".py", TextForm::kPython}, {".sh", TextForm::kShell}};
  for (const auto& [ending, form] : kEndings) {
    if (file.ends_with(ending)) return form;
  }
  const size_t at = text.find_first_not_of(" \t\r\n");
  if (at != std::string_view::npos && text[at] == '{') return TextForm::kJson;
  return TextForm::kShell;
}

std::vector<ConfigText> ReadConfigTexts(const SourceRef& source,
                                        Findings& findings,
                                        const Environment& environment) {
  TextWork work(source, findings);
  std::vector<ConfigText> out;
  switch (FormOf(source->name(), source->text())) {
    case TextForm::kShell:
      out = ReadShell(source, work, environment);
      break;
    case TextForm::kYaml:
      out = ReadYaml(source, work, findings, environment);
      break;
    case TextForm::kJson: {
      const auto document = JsonDocument::Parse(source, findings);
      if (document == nullptr) return {};
      // Places are in the document's source, which the settings keep.
      out = JsonConfig(*document, work).Take();
      break;
    }
    case TextForm::kToml:
      out = ReadToml(source, work, findings);
      break;
    case TextForm::kPython:
      out = ReadPython(source, work);
      break;
  }
  if (work.exceeded()) return {};
  return out;
}

}  // namespace shardc::systems
