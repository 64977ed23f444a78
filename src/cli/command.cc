// Appends the options that all commands have to a command's own options. Only a
// command with several output formats gets the option `--format`.
#include "cli/command.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/parser.h"
#include "emit/findings/formats.h"
#include "source/json_writer.h"
#include "source/utf8.h"
#include "source/wording.h"

namespace shardc::cli {

Options WithCommon(Options own, const Command& command, Common& common) {
  Options options = std::move(own);
  Options every = {{.name = "--quiet",
                    .to = &common.quiet,
                    .help = "print only errors on stderr",
                    .letter = 'q'},
                   {.name = "--color",
                    .to = &common.color,
                    .value = "auto|always|never",
                    .help = "use colour on stderr",
                    .checked = true},
                   {.name = "--threads",
                    .to = Bounded{&common.threads, 1, 1024},
                    .value = "N",
                    .help = "number of threads (default: one per core); never "
                            "changes a result"}};
  if (!command.formats.empty()) {
    options.push_back({.name = "--format",
                       .need = HelpNeed::kMost,
                       .to = &common.format,
                       .value = std::string(command.formats),
                       .help = "format of the result",
                       .checked = true});
  }
  every.push_back({.name = "--help",
                   .to = &common.help,
                   .help = "-h prints the options that most users need, "
                           "--help prints all of them",
                   .letter = 'h'});
  Append(options, Under("Every command", std::move(every)));
  return options;
}

bool Option::TakesFile() const {
  return !IsFlag() &&
         (value.find("FILE") != value.npos || value.find("DIR") != value.npos ||
          value.find("PATH") != value.npos);
}

std::function<Strings()> Words(Strings words) {
  return [own = std::move(words)] { return own; };
}

std::function<Strings()> Words(std::vector<std::string_view> (*names)()) {
  return [names] {
    const auto words = names();
    return Strings(words.begin(), words.end());
  };
}

Strings Option::Choices() const {
  Strings choices;
  const char first = value.empty() ? 'A' : value.front();
  const bool listed =
      value.find('|') != value.npos && (first >= 'a' || IsDigit(first));
  for (size_t at = 0; listed && at <= value.size();) {
    const size_t end = std::min(value.find('|', at), value.size());
    choices.push_back(value.substr(at, end - at));
    at = end + 1;
  }
  return choices;
}

namespace {

template <class T>
bool DifferAs(const Destination& a, const Destination& b) {
  const auto* const given = std::get_if<T*>(&a);
  return given != nullptr && **given != *std::get<T*>(b);
}

}  // namespace

bool IsGiven(const Option& option, const Option& usual) {
  return DifferAs<bool>(option.to, usual.to) ||
         DifferAs<std::string>(option.to, usual.to) ||
         DifferAs<std::optional<std::string>>(option.to, usual.to) ||
         DifferAs<Strings>(option.to, usual.to);
}

void Append(Options& options, Options more) {
  options.insert(options.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
}

Option OutputOption(std::string* to, std::string help) {
  return {.name = "--output",
          .need = HelpNeed::kMost,
          .to = to,
          .value = "FILE",
          .help = std::move(help),
          .letter = 'o'};
}

Options Under(std::string_view heading, Options options) {
  for (Option& option : options) {
    if (option.group.empty()) option.group = heading;
  }
  return options;
}

Strings SplitList(const Strings& given) {
  Strings out;
  for (const std::string& text : given) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find_first_of(", ", begin), text.size());
      if (end > begin) out.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return out;
}

// Writes the commands with their options as JSON, without empty members. The
// manual and the completions are generated from this JSON, so that they match
// the program:
//
//   {"name": "--quiet", "letter": "q", "flag": true, "help": "..."}

namespace {

// The indentation level, in the JSON text, of the members of a command's
// object. The command's options are one level deeper.
constexpr int kMemberIndent = 3;

// Writes a member unless the text is empty.
void WriteText(JsonWriter& json, std::string_view key, std::string_view text) {
  json.Member(key, Given(text));
}

void WriteTrue(JsonWriter& json, std::string_view key, bool value) {
  if (value) json.Member(key, true);
}

void WriteOption(JsonWriter& json, const Option& option, bool is_brief) {
  json.BeginObject();
  WriteText(json, "name", option.name);
  WriteText(json, "letter",
            {&option.letter, option.letter == 0 ? size_t{0} : size_t{1}});
  WriteTrue(json, "flag", option.IsFlag());
  WriteText(json, "value", option.value);
  WriteText(json, "help", option.help);
  WriteTrue(json, "required", option.required);
  WriteTrue(json, "brief", is_brief);
  WriteTrue(json, "file", option.TakesFile());
  const Strings words = option.words ? option.words() : option.Choices();
  json.Member("words", Given(words));
  json.EndObject();
}

void WriteCommand(JsonWriter& json, const Command& command) {
  json.BeginObject();
  json.Member("name", command.name);
  json.Break(kMemberIndent);
  json.Member("summary", command.summary);
  json.Break(kMemberIndent);
  json.Member("about", command.about);
  json.Break(kMemberIndent);
  json.Member("example", command.example);
  json.Break(kMemberIndent);
  json.Key("options");
  json.BeginArray();
  Common common;
  Declared declared = command.declare();
  const Options all = WithCommon(std::move(declared.options), command, common);
  const Options brief = BriefOptions(command, all);
  for (const Option& option : all) {
    json.Break(kMemberIndent + 1);
    WriteOption(json, option,
                std::ranges::any_of(brief, [&](const Option& one) {
                  return one.name == option.name;
                }));
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace

std::string DescribeCommands() {
  return JsonText([](JsonWriter& json) {
           json.BeginArray(JsonLayout::kLines);
           for (const Command& command : Commands()) {
             WriteCommand(json, command);
           }
           json.EndArray();
         }) +
         "\n";
}

// Finds the places of findings about options. The command line is written as
// one line and quoted for a shell, and places are in this line. The message of
// a finding contains names of options, and values in backticks. Each of these
// is searched for after the command's name, as a complete word or list item.
// The finding is placed at the first name or value that the command line
// contains. If it contains none of them, an error is placed at the command's
// name:
//
//   `4` of `--processes` has no device
//     --> <command line>:1:26
//    1 | shardc checkpoint split --processes 4 --plan plan.json
//      |                          ^

namespace {

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    "-_./:,=+@%^";
constexpr std::string_view kBoundaries = " ,=:'";

// Returns the words of a message that may be in the command line, in order: the
// texts in backticks, and the names of options (`--plan`) outside of backticks.
std::vector<std::string_view> QuotedIn(std::string_view message) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at < message.size();) {
    if (message[at] == '`') {
      const size_t end = message.find('`', at + 1);
      if (end == std::string_view::npos) break;
      if (end > at + 1) out.push_back(message.substr(at + 1, end - at - 1));
      at = end + 1;
    } else if (message.substr(at).starts_with("--")) {
      const size_t end =
          std::min(message.find_first_of(" ,:=", at), message.size());
      out.push_back(message.substr(at, end - at));
      at = end;
    } else {
      ++at;
    }
  }
  return out;
}

// Returns the first position of `word` in `line`, not before `from`, at which
// the word has a separator on both sides.
std::optional<size_t> FindWord(std::string_view line, size_t from,
                               std::string_view word) {
  const auto ends_at = [&](size_t at) {
    return at == line.size() ||
           kBoundaries.find(line[at]) != std::string_view::npos;
  };
  for (size_t at = line.find(word, from); at != std::string_view::npos;
       at = line.find(word, at + 1)) {
    if (ends_at(at - 1) && ends_at(at + word.size())) return at;
  }
  return std::nullopt;
}

}  // namespace

std::string ShellWord(std::string_view word) {
  const std::string shown = Printable(word);
  if (!shown.empty() && shown.find_first_not_of(kPlain) == std::string::npos) {
    return shown;
  }
  std::string out = "'";
  for (const char c : shown) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

CommandLine::CommandLine(int argc, const char* const* argv) {
  if (argc < 2) return;
  std::string line = "shardc";
  program_size_ = line.size() + 1;
  for (int i = 1; i < argc; ++i) line += " " + ShellWord(argv[i]);
  source_ = MakeSource("<command line>", std::move(line));
}

Place CommandLine::PlaceOf(const Finding& finding) const {
  const std::string_view line = source_->text();
  // The search starts after the command's name, because messages may contain
  // the command's name too. If an option precedes that name by mistake, the
  // search starts at the option.
  const size_t command_end =
      std::min(line.find(' ', program_size_), line.size());
  const size_t begin = line[program_size_] == '-' ? program_size_ : command_end;
  for (const std::string_view word : QuotedIn(finding.message)) {
    for (const std::string& written : {Printable(word), ShellWord(word)}) {
      if (const auto at = FindWord(line, begin, written)) {
        return At(*at, written.size());
      }
    }
  }
  if (finding.level != Level::kError) return {};
  return At(program_size_, command_end - program_size_);
}

Findings CommandLine::Placed(Findings findings) const {
  const auto lacks_place = [](const Finding& finding) {
    return finding.place.source == nullptr && !IsFile(finding.main_file);
  };
  // A copy of the findings would copy the names of all their parameters.
  if (source_ == nullptr || std::ranges::none_of(findings.all(), lacks_place)) {
    return findings;
  }
  Findings out;
  out.NoteReadsOf(findings);
  for (Finding finding : findings.all()) {
    if (lacks_place(finding)) finding.place = PlaceOf(finding);
    out.Add(std::move(finding));
  }
  return out;
}

}  // namespace shardc::cli
