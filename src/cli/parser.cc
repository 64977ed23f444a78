// Parses command lines. Commands declare options as data. Only this file
// converts these options to objects of CLI11, and the exceptions of CLI11 to
// findings. An unknown command is reported before any other error:
//
//   shardc resovle  ->  `resovle` is not a shardc command
//                       did you mean `resolve`?
//
// A command of two words, such as `verify step`, is a subcommand of a
// subcommand in CLI11. `verify step` has its own options, and none of the
// options of `verify`.
#include "cli/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/version.h"
#include "source/list.h"
#include "source/other_words.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

// Formats the help of commands in two columns: names, and wrapped descriptions.
// A name that is wider than its column gets a line of its own. A long example
// is continued with a backslash:
//
//   -o,--output FILE            file to write the result to (default: stdout)
//   --format text|concise|json|sarif|github|junit|markdown
//                               format of the result

constexpr size_t kWidth = 80;
constexpr size_t kHelpColumn = 28;
constexpr size_t kSummaryColumn = 14;
constexpr size_t kGroupColumn = 7;
// The columns and lines of the help of -h.
constexpr size_t kBriefColumn = 25;
constexpr int64_t kBriefLines = 30;

// Appends `text`, wrapped and indented to column `at`. `used` is the number of
// columns that the current line already has.
void AddWrapped(std::string_view text, size_t at, size_t used,
                std::string& out) {
  size_t column = used;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t begin = std::max(column == 0 ? 0 : column + 1, at);
    if (column > 0 && begin + word.size() > kWidth) {
      out += '\n';
      column = 0;
    }
    size_t space = std::max(column == 0 ? 0 : column + 1, at) - column;
    // A word that is too wide for the column begins further to the left, so
    // that the line has at most kWidth columns.
    if (column == 0 && at + word.size() > kWidth) {
      space = kWidth - std::min(kWidth, word.size());
    }
    out.append(space, ' ').append(word);
    column += space + word.size();
  }
  out += '\n';
}

void AddRow(const std::string& name, std::string_view help, size_t at,
            std::string& out) {
  out += "  " + name;
  size_t used = 2 + name.size();
  if (used + 2 > at) {
    out += '\n';
    used = 0;
  }
  AddWrapped(help, at, used, out);
}

// Returns the text of an option in the first column: `-o,--output FILE`,
// `FILE ...`.
std::string NameCell(const Option& option) {
  std::string out =
      option.letter == 0 ? "" : std::string("-") + option.letter + ",";
  out += option.name;
  if (!option.IsArgument() && !option.value.empty()) out += " " + option.value;
  if (option.IsList()) out += " ...";
  return out;
}

std::string UsageText(const Command& command, const Options& options) {
  std::string out = "Usage: shardc " + std::string(command.name) + " [OPTIONS]";
  for (const Option& option : options) {
    if (!option.IsArgument()) continue;
    const std::string name = option.name + (option.IsList() ? " ..." : "");
    out += option.required ? " " + name : " [" + name + "]";
  }
  return out + "\n";
}

// Returns the headings of options, in the order in which they first occur. The
// command's own options have an empty heading, which comes first.
std::vector<std::string> HeadingsOf(const Options& options) {
  std::vector<std::string> out = {""};
  for (const Option& option : options) {
    if (option.IsArgument()) continue;
    AddOnce(out, option.group);
  }
  return out;
}

template <class Shown>
void AddSection(const std::string& heading, const Options& options,
                const Shown& shown, size_t column, std::string& out) {
  bool first = true;
  for (const Option& option : options) {
    if (!shown(option)) continue;
    if (first) out += heading + ":\n";
    first = false;
    AddRow(NameCell(option),
           option.help + (option.required ? " (required)" : ""), column, out);
  }
}

// Lists the commands of two words whose first word is this command, such as
// `verify step` for `verify`.
std::string SubcommandsText(const Command& command) {
  std::string out;
  const std::string prefix = std::string(command.name) + " ";
  bool first = true;
  for (const Command& other : Commands()) {
    if (!other.name.starts_with(prefix)) continue;
    if (first) out += "Subcommands:\n";
    first = false;
    AddRow(std::string(other.name.substr(prefix.size())), other.summary,
           kSummaryColumn, out);
  }
  return out;
}

// Appends one command line. A long line is broken before an option, and each
// part except the last ends with a backslash.
void AddExample(std::string_view line, std::string& out) {
  constexpr std::string_view kNextLine = " \\\n      ";
  size_t column = 2;
  out += "  ";
  while (!line.empty()) {
    const size_t end = std::min(line.find(" -", 1), line.size());
    const std::string_view part = line.substr(0, end);
    line.remove_prefix(end);
    const size_t backslash = line.empty() ? 0 : 2;
    if (column > 6 && column + part.size() + backslash > kWidth) {
      out += kNextLine;
      out += part.substr(1);
      column = 5 + part.size();
    } else {
      out += part;
      column += part.size();
    }
  }
  out += '\n';
}

// Returns the help of `shardc -h`: a line for each command. The commands of the
// last group are only named.
std::string BriefProgramHelp() {
  std::string out =
      "Compile sharding rules to plans, lint them, and prove the plans.\n\n"
      "Usage: shardc [OPTIONS] COMMAND\n\n";
  const std::string_view last = Commands().back().group;
  std::string_view group;
  std::string named;
  for (const Command& command : Commands()) {
    if (command.group.empty()) continue;
    if (command.group == last) {
      named += (named.empty() ? "" : ", ") + std::string(command.name);
      continue;
    }
    std::string row(command.group == group ? "" : command.group);
    group = command.group;
    row.resize(kGroupColumn, ' ');
    row += command.name;
    row.resize(std::max(row.size() + 1, kGroupColumn + kSummaryColumn - 2),
               ' ');
    out += row;
    AddWrapped(command.summary, row.size(), row.size(), out);
  }
  std::string row(last);
  row.resize(kGroupColumn, ' ');
  out += row;
  AddWrapped(named, kGroupColumn, kGroupColumn, out);
  return out +
         "\n`shardc COMMAND -h` has the options of a command that most users "
         "need,\n`shardc COMMAND --help` all; `shardc --help` describes all "
         "commands.\n";
}

// Returns the help of `shardc --help`: its options, and all commands with their
// summaries.
std::string ProgramHelp() {
  std::string out =
      "Compile sharding rules to plans, lint them, and prove by numbers that\n"
      "sharded attention computes what the dense model computes.\n\n"
      "Usage: shardc [OPTIONS] COMMAND\n\nOptions:\n";
  AddRow("-h,--help",
         "-h prints the commands on one screen, --help describes all of them",
         kHelpColumn, out);
  AddRow("-V,--version", "print the version and exit", kHelpColumn, out);
  AddRow("--libraries",
         "with --version: also print the libraries linked in, with versions "
         "and licences",
         kHelpColumn, out);
  std::string_view group;
  for (const Command& command : Commands()) {
    if (command.group.empty()) continue;
    if (command.group != group) {
      out += "\n" + std::string(command.group) + ":\n";
    }
    group = command.group;
    AddRow(std::string(command.name), command.summary, kSummaryColumn, out);
  }
  return out;
}

}  // namespace

std::string BriefHelp(const Option& option) {
  if (option.IsArgument()) {
    const Strings words =
        option.required && option.words ? option.words() : option.Choices();
    if (!words.empty()) return Join(words, ", ");
  }
  return option.help.substr(
      0, std::min(option.help.find("; "), option.help.find(" (default")));
}

namespace {

// Returns the values of a placeholder as far as a column holds them:
//
//   text|concise|json|sarif  ->  text|concise|...
std::string BriefValue(const Option& option) {
  constexpr std::string_view kMore = "|...";
  std::string out = option.value;
  const size_t other = NameCell(option).size() - out.size();
  const size_t most = kBriefColumn - 4 - std::min(kBriefColumn - 4, other);
  if (out.size() <= most || out.find('|') == std::string::npos) return out;
  const size_t bar = out.rfind('|', most - std::min(most, kMore.size()));
  if (bar == std::string::npos) return out;
  return out.substr(0, bar) + std::string(kMore);
}

// Appends the examples of a command, or the first of them.
void AddExamples(std::string_view examples, bool first_only, std::string& out) {
  while (!examples.empty()) {
    const size_t end = std::min(examples.find('\n'), examples.size());
    const std::string_view line = examples.substr(0, end);
    AddExample(line, out);
    examples.remove_prefix(std::min(end + 1, examples.size()));
    if (first_only && !line.ends_with('\\')) return;
  }
}

std::vector<std::string> SectionsOf(const Options& options, size_t column) {
  std::vector<std::string> out;
  const auto add = [&](const std::string& heading, const auto& shown) {
    std::string text;
    AddSection(heading, options, shown, column, text);
    if (!text.empty()) out.push_back(std::move(text));
  };
  add("Arguments", [](const Option& option) { return option.IsArgument(); });
  for (const std::string& heading : HeadingsOf(options)) {
    add(heading.empty() ? "Options" : heading, [&](const Option& option) {
      return !option.IsArgument() && option.group == heading;
    });
  }
  return out;
}

// Returns the help of one command for `--help`: usage, arguments, options under
// their headings, and examples. `options` are all options that the command
// accepts (see WithCommon).
std::string CommandHelp(const Command& command, const Options& options) {
  std::string out;
  AddWrapped(command.summary, 0, 0, out);
  out += "\n" + UsageText(command, options);
  for (const std::string& section : SectionsOf(options, kHelpColumn)) {
    out += "\n" + section;
  }
  if (const std::string more = SubcommandsText(command); !more.empty()) {
    out += "\n" + more;
  }
  out += "\nExample:\n";
  AddExamples(command.example, false, out);
  return out;
}

bool IsNeededMost(const Option& option) {
  return option.IsArgument() || option.required ||
         option.need == HelpNeed::kMost;
}

// Returns the help of one command for `-h`, which lists `options`, and all
// `all` options are counted.
std::string BriefText(const Command& command, Options options, int64_t all) {
  for (Option& option : options) {
    option.help = BriefHelp(option);
    option.value = BriefValue(option);
  }
  std::string out;
  AddWrapped(command.summary, 0, 0, out);
  out += UsageText(command, options) + "\n" +
         Join(SectionsOf(options, kBriefColumn), "") +
         SubcommandsText(command) + "Example:\n";
  AddExamples(command.example, true, out);
  return out + "`shardc " + std::string(command.name) +
         " --help` describes all " + std::to_string(all) + " options.\n";
}

int64_t CountOptions(const Options& options) {
  return std::ranges::count_if(
      options, [](const Option& option) { return !option.IsArgument(); });
}

// Returns the help of one command for `-h`.
std::string BriefHelpOf(const Command& command, const Options& all) {
  return BriefText(command, BriefOptions(command, all), CountOptions(all));
}

// With this option, `--version` also prints the linked libraries.
constexpr const char* kLibraries = "--libraries";

// Returns a validator that accepts only the choices. CLI11's own IsMember would
// print the choices twice.
CLI::Validator OneOf(const Strings& choices) {
  return CLI::Validator(
      [choices](std::string& value) {
        if (IsAmong(value, choices)) {
          return std::string();
        }
        std::string known = Join(choices, ", ");
        return "`" + value + "` is none of: " + known;
      },
      "");
}

// What follows an option's name in the message of an empty value.
constexpr const char* kIsEmpty = ": its value is empty";

// Returns a validator that refuses an empty value, such as the value of an
// unset shell variable. Other code treats an empty value like an option that is
// not given.
CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](const std::string& value) {
        return std::string(value.empty() ? kIsEmpty + 2 : "");
      },
      "");
}

std::string Spelling(const Option& option) {
  std::string out = option.name;
  if (option.letter != 0) out = std::string("-") + option.letter + "," + out;
  return out;
}

// Declares an option to CLI11. There is one overload for each kind of
// destination.
struct Adder {
  CLI::App& app;
  const Option& option;

  CLI::Option* operator()(bool* flag) const {
    return app.add_flag(Spelling(option), *flag);
  }
  template <class T>
  CLI::Option* operator()(T* value) const {
    return app.add_option(Spelling(option), *value);
  }
  CLI::Option* operator()(const Bounded& bounded) const {
    return (*this)(bounded.number)
        ->check(CLI::Range(bounded.least, bounded.most).description(""));
  }
};

// CLI11 reports `-h` as its help, and `--help` as its help of all commands.
void SetHelpFlags(CLI::App& app) {
  app.set_help_flag("-h");
  app.set_help_all_flag("--help");
}

void AddOption(CLI::App& app, const Option& option, bool words_end_lists) {
  if (option.name == "--help") {
    SetHelpFlags(app);
    return;
  }
  CLI::Option* added = std::visit(Adder{app, option}, option.to);
  added->required(option.required);
  // The placeholder of the value appears in CLI11's messages.
  if (!option.value.empty()) added->type_name(option.value);
  if (!option.IsFlag()) added->check(NotEmpty());
  if (option.checked) added->check(OneOf(option.Choices()));
  if (!option.IsList()) return;
  if (option.several == Several::kAgain || words_end_lists) {
    added->allow_extra_args(false);
  }
  if (option.several == Several::kCommas) added->delimiter(',');
}

// A CLI11 parser with only the commands that are named in `words`. Declaring
// all commands would take longer than many commands take to run.
struct Parser {
  Parser(Common& common, const Strings& words);

  CLI::App app;
  struct Entry {
    CLI::App* app;
    const Command* command;
    Options options;
    Run run;
  };
  std::vector<Entry> entries;
};

Parser::Parser(Common& common, const Strings& words) {
  app.name("shardc");
  SetHelpFlags(app);
  app.set_version_flag("-V,--version", std::string("shardc ") + kVersion);
  app.add_flag(kLibraries);
  app.require_subcommand(1);
  for (const Command& command : Commands()) {
    const size_t space = command.name.find(' ');
    const std::string_view first = command.name.substr(0, space);
    const std::string_view last =
        command.name.substr(space == std::string_view::npos ? 0 : space + 1);
    const auto is_typed = [&](std::string_view word) {
      return IsAmong(word, words);
    };
    if (!is_typed(first) || !is_typed(last)) continue;
    CLI::App* parent = &app;
    if (last != first) parent = app.get_subcommand(std::string(first));
    CLI::App* sub = parent->add_subcommand(std::string(last));
    entries.push_back({sub, &command, {}, {}});
    Declared declared = command.declare();
    Options options = WithCommon(std::move(declared.options), command, common);
    const bool takes_arguments =
        std::any_of(options.begin(), options.end(),
                    [](const Option& option) { return option.IsArgument(); });
    for (const Option& option : options)
      AddOption(*sub, option, takes_arguments);
    entries.back().options = std::move(options);
    entries.back().run = std::move(declared.run);
  }
}

// Returns the first word that is not an option. This should be the command.
std::string CommandWord(const Strings& words) {
  for (const std::string& word : words) {
    if (!word.starts_with('-')) return word;
  }
  return {};
}

bool IsCommand(std::string_view word) {
  const auto all = Commands();
  return std::any_of(all.begin(), all.end(), [&](const Command& command) {
    return command.name == word;
  });
}

// Reports that the first word is no command. If there are only options, the
// first one may be misspelt.
void UnknownCommand(const std::string& word, const Strings& words,
                    Findings& findings) {
  const StrayWord unknown = word.empty() && !words.empty()
                                ? AboutLoneOption(words[0])
                                : AboutCommand(word);
  findings.Add(code::kUsage, {}, unknown.message, unknown.help);
}

void LibrariesWithoutVersion(Findings& findings) {
  findings.Add(code::kUsage, {},
               "`" + std::string(kLibraries) + "` needs `--version`",
               "write `shardc --version --libraries`");
}

std::string VersionLine() { return std::string("shardc ") + kVersion + "\n"; }

// Rewrites the commands `help` and `version` to options: `help plan` becomes
// `plan --help`.
Strings Respelt(Strings words) {
  if (words.empty()) return words;
  if (words[0] == "version" &&
      (words.size() == 1 || (words.size() == 2 && words[1] == kLibraries))) {
    words[0] = "--version";
    return words;
  }
  if (words[0] != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

// Returns the entry of the command that was parsed, or null if no command was
// parsed. If a subcommand such as `verify step` was parsed, returns its entry
// and not the entry of `verify`.
const Parser::Entry* TypedCommand(const Parser& parser) {
  const Parser::Entry* typed = nullptr;
  for (const Parser::Entry& entry : parser.entries) {
    if (entry.app->parsed()) typed = &entry;
  }
  return typed;
}

// Adds a finding about an option that precedes the command.
void ReportEarly(const std::string& option, const std::string& name,
                 Findings& findings) {
  findings.Add(
      code::kUsage, {},
      "`" + option + "` stands before the end of the command `" + name + "`",
      "write it after it: `shardc " + name + " " + option + " ...`");
}

// Returns false, and adds a finding, if options precede the last word of the
// command, because they would have no effect there.
bool OptionsFollow(const Parser::Entry& entry, Findings& findings) {
  const auto& before = entry.app->get_parent()->parse_order();
  if (before.empty()) return true;
  const std::string flag = before.front()->get_name();
  if (flag == kLibraries) {
    LibrariesWithoutVersion(findings);
    return false;
  }
  ReportEarly(flag, std::string(entry.command->name), findings);
  return false;
}

// Returns the message of an error of CLI11. Three messages are reworded:
//
//   --output: 1 required FILE missing
//     ->  `--output` has no value
//   --mesh: At Most 1 required but received 2
//     ->  `--mesh` is given more than once
//   Could not convert: --quiet = x
//     ->  `--quiet` takes no value `x`
std::string MessageOf(const CLI::ParseError& error) {
  const std::string text = error.what();
  const std::string name = text.substr(0, text.find(": "));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    if (text.ends_with(" missing")) return Quote(name) + " has no value";
    if (text.find(": At Most 1 ") == name.size()) {
      return Quote(name) + " is given more than once";
    }
  }
  const size_t equals = text.find(" = ");
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr &&
      name.size() < equals && equals != std::string::npos) {
    const size_t flag = name.size() + 2;
    return Quote(text.substr(flag, equals - flag)) + " takes no value " +
           Quote(text.substr(equals + 3));
  }
  return text;
}

// Returns the advice for an error of CLI11. For a value that is none of the
// choices of its option, this is the choice that was meant; such a message is
// "--format: `sarrif` is none of: text, json".
std::string HelpFor(const CLI::ParseError& error, const Parser::Entry& entry) {
  const std::string text = error.what();
  const std::string name = text.substr(0, text.find(": "));
  const std::string prefix = name + ": `";
  const size_t end = text.find("` is none of: ");
  const bool lacks = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const bool mismatch =
      dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr;
  for (const Option& option : entry.options) {
    const bool has_no_value = mismatch && option.name == name &&
                              !option.IsFlag() && text.ends_with(" missing");
    if (has_no_value || (lacks && text == option.name + " is required")) {
      const std::string what = option.IsArgument()
                                   ? option.name
                                   : Quote(option.name + " " + option.value);
      return "write " + what + ": " + BriefHelp(option);
    }
    if (mismatch && option.name == name) return "write it once";
    if (option.name == name && text == name + kIsEmpty) {
      const std::string what = option.IsArgument()
                                   ? option.name
                                   : Quote(option.name + " " + option.value);
      return "a variable of the shell may be unset; write " + what + ": " +
             BriefHelp(option);
    }
    if (option.name != name || end == std::string::npos ||
        !text.starts_with(prefix)) {
      continue;
    }
    const std::string value = text.substr(prefix.size(), end - prefix.size());
    // `export --format jax`: the word is one of an argument.
    for (const Option& argument : entry.options) {
      if (!argument.IsArgument()) continue;
      if (IsAmong(value,
                  argument.words ? argument.words() : argument.Choices())) {
        return "write `shardc " + std::string(entry.command->name) + " " +
               value + "`: it is a word of " + argument.name;
      }
    }
    const std::string other =
        HelpForOtherWord(std::string_view(name).substr(2), value);
    const std::string_view setting = std::string_view(name).substr(2);
    const std::string meant =
        other.empty()
            ? DidYouMean(value, option.Choices(), HelpForUnknownWord(setting))
            : other;
    if (!meant.empty()) return meant;
  }
  return "`shardc " + std::string(entry.command->name) +
         " --help` shows its options";
}

// Reports the first word that the command does not accept. Later words are not
// reported, because they may be values of an option that is the first word.
void ReportStray(const Parser::Entry& entry, Findings& findings) {
  StrayWord about =
      AboutStray(entry.app->remaining().front(), *entry.command, entry.options);
  findings.Add(code::kUsage, {}, std::move(about.message),
               std::move(about.help));
}

// Returns whether an argument is one of a few words or a name, and no file.
bool IsNameArgument(const Option& option) {
  return option.IsArgument() && !option.value.empty() && !option.TakesFile();
}

// Returns the words that may be files without their options: those that the
// command does not accept, and arguments that are no names.
Strings PlainWords(const Parser::Entry& entry) {
  Strings out = entry.app->remaining();
  for (const Option& option : entry.options) {
    const auto* const to = std::get_if<std::string*>(&option.to);
    if (!IsNameArgument(option) || to == nullptr || (*to)->empty()) continue;
    if (!IsAmong(**to, option.Choices())) out.push_back(**to);
  }
  return out;
}

// Returns whether the word after `words` is the value of an option.
bool IsValueOf(const Strings& words, const Options& options) {
  if (words.empty() || words.back().size() < 2) return false;
  const std::string& last = words.back();
  return std::ranges::any_of(options, [&](const Option& option) {
    const bool by_letter =
        option.letter != 0 && last == std::string("-") + option.letter;
    return !option.IsArgument() && !option.IsFlag() &&
           (by_letter || option.name == last);
  });
}

// Returns the words with the option of each file or mesh that is given without
// one, and is recognised: `cost plan.json` becomes `cost --plan plan.json`.
// Returns nullopt if there is no such word.
std::optional<Strings> WithOptionsOfFiles(const Parser::Entry& entry,
                                          const Strings& given) {
  if (IsAmong("--", given)) return std::nullopt;
  const Strings plain = PlainWords(entry);
  // Words keep their order; those with an option come last.
  Strings words, added;
  for (const std::string& word : given) {
    if (IsValueOf(words, entry.options) || !IsAmong(word, plain)) {
      words.push_back(word);
      continue;
    }
    Strings all = given;
    all.insert(all.end(), added.begin(), added.end());
    const auto flag = OptionOfFile(word, entry.options, all);
    // An option of one value that is given already has another file.
    if (!flag || (*flag != "--rules" && IsAmong(*flag, all))) {
      words.push_back(word);
    } else {
      added.insert(added.end(), {*flag, word});
    }
  }
  if (added.empty()) return std::nullopt;
  words.insert(words.end(), added.begin(), added.end());
  return words;
}

// Returns whether the words that the command does not accept come after `--`.
// CLI11 treats all words after `--` as arguments.
bool StrayFollowsDashes(const Parser::Entry& entry, const Strings& words,
                        const CLI::ParseError& error) {
  if (!IsAmong("--", words)) return false;
  const Strings stray = entry.app->remaining();
  return stray.empty()
             ? dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr
             : stray.front() == "--";
}

}  // namespace

Options BriefOptions(const Command& command, const Options& all) {
  Options out;
  for (const Option& option : all) {
    if (IsNeededMost(option) || option.need == HelpNeed::kOften) {
      out.push_back(option);
    }
  }
  // Leave out the last of the options that are often needed until one screen
  // holds the rest.
  while (true) {
    const std::string text = BriefText(command, out, CountOptions(all));
    const auto last = std::find_if_not(out.rbegin(), out.rend(), IsNeededMost);
    if (std::ranges::count(text, '\n') <= kBriefLines || last == out.rend()) {
      return out;
    }
    out.erase(std::next(last).base());
  }
}

std::string QuickStart() {
  return "shardc " + std::string(kVersion) + R"(: sharding rules to plans

  shardc plan --mesh dp:2,fsdp:8,tp:4 --rules auto \
      --manifest model.safetensors.index.json -o plan.json
                           compile the sharding of every parameter
  shardc check ...         list mistakes in the rules
  shardc explain NAME ...  explain why a parameter got its spec
  shardc verify ...        prove that sharded attention equals dense attention

With a `shardc.yaml` here or above, `shardc check` needs no options.
`shardc -h` lists the commands, `shardc plan -h` the options of one that most
users need, and `shardc plan --help` all of them.
)";
}

namespace {

// Returns the values of options and arguments that may be files.
std::vector<GivenFile> FilesOf(const Options& options) {
  std::vector<GivenFile> out;
  const auto add = [&](const Option& option, const std::string& value) {
    if (!value.empty()) out.push_back({option.name, value});
  };
  for (const Option& option : options) {
    if (const auto* const one = std::get_if<std::string*>(&option.to)) {
      add(option, **one);
    } else if (const auto* const many = std::get_if<Strings*>(&option.to)) {
      for (const std::string& value : **many) add(option, value);
    }
  }
  return out;
}

// Parses the words. If `recognises` is true, files that are given without their
// options get them.
std::optional<Parsed> ParseWords(const Strings& words, bool recognises,
                                 Common& common, Findings& findings) {
  Parser parser(common, words);
  const std::string word = CommandWord(words);
  try {
    // CLI11 expects the words in reverse order.
    parser.app.parse(Strings(words.rbegin(), words.rend()));
  } catch (const CLI::Success& asked) {  // for --help and --version
    if (!word.empty() && !IsCommand(word)) {
      UnknownCommand(word, words, findings);
      return std::nullopt;
    }
    if (dynamic_cast<const CLI::CallForVersion*>(&asked) != nullptr) {
      std::string version = VersionLine();
      if (parser.app.count(kLibraries) > 0) {
        version += EmbeddedLibraries().front().text;
      }
      return Parsed{{}, std::move(version)};
    }
    const Parser::Entry* entry = TypedCommand(parser);
    const bool all =
        dynamic_cast<const CLI::CallForAllHelp*>(&asked) != nullptr;
    if (entry == nullptr) {
      return Parsed{{}, all ? ProgramHelp() : BriefProgramHelp()};
    }
    const auto help = all ? CommandHelp : BriefHelpOf;
    return Parsed{{}, help(*entry->command, entry->options)};
  } catch (const CLI::ParseError& error) {
    const Parser::Entry* entry = TypedCommand(parser);
    if (entry != nullptr && recognises) {
      if (const auto more = WithOptionsOfFiles(*entry, words)) {
        return ParseWords(*more, false, common, findings);
      }
    }
    if (word.empty() && parser.app.count(kLibraries) > 0) {
      LibrariesWithoutVersion(findings);
    } else if (entry == nullptr || !IsCommand(word)) {
      const auto command = std::ranges::find_if(words, IsCommand);
      if (words.front().starts_with('-') && command != words.end()) {
        ReportEarly(words.front(), *command, findings);
      } else {
        UnknownCommand(word, words, findings);
      }
    } else if (StrayFollowsDashes(*entry, words, error)) {
      findings.Add(code::kUsage, {},
                   "the words after `--` are arguments, and `" +
                       std::string(entry->command->name) +
                       "` does not take so many",
                   "write options before `--`");
    } else if (!entry->app->remaining().empty()) {
      ReportStray(*entry, findings);
    } else if (const Strings early = parser.app.remaining(); !early.empty()) {
      ReportEarly(early.front(), std::string(entry->command->name), findings);
    } else {
      findings.Add(code::kUsage, {}, MessageOf(error), HelpFor(error, *entry));
    }
    return std::nullopt;
  }
  const Parser::Entry* entry = TypedCommand(parser);
  if (!OptionsFollow(*entry, findings)) return std::nullopt;
  if (recognises) {
    if (const auto more = WithOptionsOfFiles(*entry, words)) {
      return ParseWords(*more, false, common, findings);
    }
  }
  return Parsed{entry->run,
                {},
                std::string(entry->command->name),
                entry->options,
                FilesOf(entry->options)};
}

}  // namespace

std::optional<Parsed> ParseArguments(int argc, char** argv, Common& common,
                                     Findings& findings) {
  const Strings words = Respelt(Strings(argv + 1, argv + argc));
  if (words.size() == 1 && (words[0] == "--version" || words[0] == "-V")) {
    // The version needs no parser, which would take longer to make.
    return Parsed{{}, VersionLine()};
  }
  return ParseWords(words, true, common, findings);
}

}  // namespace shardc::cli
