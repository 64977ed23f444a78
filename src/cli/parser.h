// Parses the command line. Each command declares the options that it accepts.
#ifndef SHARDC_CLI_PARSER_H_
#define SHARDC_CLI_PARSER_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "source/finding.h"

namespace shardc::cli {

// A file that an option or an argument names.
struct GivenFile {
  std::string option;  // "--mesh", or "PROGRAM" for an argument
  std::string path;
};

struct Parsed {
  Run run;                   // null if only `text` is to be printed
  std::string text;          // the text that --help or --version prints
  std::string command = {};  // the name of the command that `run` runs
  Options options = {};      // all options of the command
  std::vector<GivenFile> files = {};
};

// Parses the command line. Returns nullopt with findings (usage) if it has
// errors. Even then, the options in `common` that could be parsed are set,
// because they choose the format in which the findings are printed.
std::optional<Parsed> ParseArguments(int argc, char** argv, Common& common,
                                     Findings& findings);

// Returns those of all options of a command (WithCommon) that `-h` lists: those
// that most users need, and as many of the often needed ones as one screen
// holds.
Options BriefOptions(const Command& command, const Options& all);

// Returns the text that `shardc` prints without arguments: the commands to try
// first.
std::string QuickStart();

// Returns the help of an option that -h prints, which ends before the first
// semicolon or the default. An argument that is one of several words has them.
//
//   rules file, builtin:PACK or auto; may be repeated
//     ->  rules file, builtin:PACK or auto
std::string BriefHelp(const Option& option);

// The message and the help for a word that `command` does not accept. For a
// misspelt option, the help names the nearest option. For a file, it names the
// option that accepts such files.
struct StrayWord {
  std::string message;
  std::string help;
};
// The first word is not a command. The help names the command of the same
// purpose or the nearest one.
StrayWord AboutCommand(const std::string& word);
// There is no command, and the first word is this option.
StrayWord AboutLoneOption(const std::string& word);
// Returns the option of which the word is the value, if its contents or its
// form leave no doubt: `--plan` for a file with a plan, or `--from` and then
// `--to` for the two plans of a command that has a pair. `given` are the words
// of the command line. Returns nullopt for other words, and if `options` lacks
// the option.
std::optional<std::string> OptionOfFile(const std::string& word,
                                        std::span<const Option> options,
                                        std::span<const std::string> given);
// Replaces the errors about a file of another kind than its option takes, such
// as those of a plan that `--mesh` names, by one error that states both kinds.
void NameMistakenFiles(std::span<const GivenFile> files,
                       std::span<const Option> options, Findings& findings);

StrayWord AboutStray(const std::string& word, const Command& command,
                     std::span<const Option> options);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_PARSER_H_
