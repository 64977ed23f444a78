// Formats the help of commands in two columns: names, and wrapped descriptions.
// A name that is wider than its column gets a line of its own. A long example
// is continued with a backslash:
//
//   -o,--output FILE            file to write the result to (default: stdout)
//   --format text|concise|json|sarif|github|junit|markdown
//                               format of the result
#include "cli/help.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace shardc::cli {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kHelpColumn = 28;
constexpr size_t kSummaryColumn = 14;

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
// `FILE ...`, `DIR,--from DIR`.
std::string NameCell(const Option& option) {
  std::string out =
      option.letter == 0 ? "" : std::string("-") + option.letter + ",";
  out += option.name;
  if (!option.also.empty()) out += "," + option.also;
  if (!option.IsArgument() && !option.value.empty()) out += " " + option.value;
  if (option.IsArgument() && !option.also.empty()) out += " " + option.name;
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
    if (std::find(out.begin(), out.end(), option.group) == out.end()) {
      out.push_back(option.group);
    }
  }
  return out;
}

template <class Shown>
void AddSection(const std::string& heading, const Options& options,
                const Shown& shown, std::string& out) {
  bool first = true;
  for (const Option& option : options) {
    if (!shown(option)) continue;
    if (first) out += "\n" + heading + ":\n";
    first = false;
    AddRow(NameCell(option),
           option.help + (option.required ? " (required)" : ""), kHelpColumn,
           out);
  }
}

// Lists the commands of two words whose first word is this command, such as
// `verify step` for `verify`.
void AddSubcommands(const Command& command, std::string& out) {
  const std::string prefix = std::string(command.name) + " ";
  bool first = true;
  for (const Command& other : Commands()) {
    if (!other.name.starts_with(prefix)) continue;
    if (first) out += "\nSubcommands:\n";
    first = false;
    AddRow(std::string(other.name.substr(prefix.size())), other.summary,
           kSummaryColumn, out);
  }
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

}  // namespace

std::string ProgramHelp() {
  std::string out =
      "Compile sharding rules to plans, lint them, and prove by numbers that\n"
      "sharded attention computes what the dense model computes.\n\n"
      "Usage: shardc [OPTIONS] SUBCOMMAND\n\nOptions:\n";
  AddRow("-h,--help", "print this help message and exit", kHelpColumn, out);
  AddRow("-V,--version", "print the version and exit", kHelpColumn, out);
  AddRow("--libraries",
         "with --version: also print the libraries linked in, with versions "
         "and licences",
         kHelpColumn, out);
  out += "\nSubcommands:\n";
  for (const Command& command : Commands()) {
    if (command.name.find(' ') != std::string_view::npos) continue;
    AddRow(std::string(command.name), command.summary, kSummaryColumn, out);
  }
  return out;
}

std::string CommandHelp(const Command& command, const Options& options) {
  std::string out;
  AddWrapped(command.summary, 0, 0, out);
  out += "\n" + UsageText(command, options);
  AddSection(
      "Arguments", options,
      [](const Option& option) { return option.IsArgument(); }, out);
  for (const std::string& heading : HeadingsOf(options)) {
    AddSection(
        heading.empty() ? "Options" : heading, options,
        [&](const Option& option) {
          return !option.IsArgument() && option.group == heading;
        },
        out);
  }
  AddSubcommands(command, out);
  out += "\nExample:\n";
  std::string_view example = command.example;
  while (!example.empty()) {
    const size_t end = std::min(example.find('\n'), example.size());
    AddExample(example.substr(0, end), out);
    example.remove_prefix(std::min(end + 1, example.size()));
  }
  return out;
}

}  // namespace shardc::cli
