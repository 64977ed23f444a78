// Directory: cli. It has the function main, a file for each command, and the
// exit codes. Only parser.cc uses CLI11.
// Its files include headers of these directories: source, model, devices,
// parse, stored, hlo, importers/rules, match, match/proof, program, families,
// resolve, legalize, schedule, step, facts, systems, plan, plan/difference,
// lint/analysis, lint/rules, lint, checkpoint, target, exec/machine,
// exec/operations, eval, verify/cases, verify, verify/step, verify/program,
// cost, suggest, search, audit, kv, verify/kv, picture, emit, emit/findings,
// emit/verify, emit/exports, emit/plans, emit/costs, emit/audits, emit/kv,
// emit/pictures, emit/schedules, emit/programs, emit/step_programs,
// emit/report, lsp.
#ifndef SHARDC_CLI_COMMAND_H_
#define SHARDC_CLI_COMMAND_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/option_value.h"
#include "source/finding.h"
#include "source/source.h"
#include "target/choose.h"

namespace shardc::cli {

// Returns a word quoted for a shell if it needs quotes: `a b` -> `'a b'`.
std::string ShellWord(std::string_view word);

class CommandLine {
 public:
  // Makes a command line without arguments. Placed() then changes no finding.
  CommandLine() = default;
  CommandLine(int argc, const char* const* argv);

  // Returns the findings with places. A finding without a place is placed at
  // the word of the command line that its message quotes. If there is no such
  // word, an error is placed at the command's name.
  Findings Placed(Findings findings) const;

 private:
  Place PlaceOf(const Finding& finding) const;
  Place At(size_t begin, size_t size) const {
    return {source_, begin, begin + size};
  }

  SourceRef source_;
  // The size in bytes of the program's name and the space after it.
  size_t program_size_ = 0;
};

using Strings = std::vector<std::string>;

// An integer that the parser library reads and checks against bounds.
struct Bounded {
  int* number;
  int least, most;
};

// Where an option's value is stored. An option without a value has a bool. A
// list gets a further element each time the option is given. Numbers other than
// Bounded are stored as text and parsed later, because the parser library reads
// 010 as 8.
using Destination =
    std::variant<bool*, std::string*, std::optional<std::string>*, Strings*,
                 Bounded>;

// The ways to pass several values to a list option. `-x a b` is accepted only
// if the command has no positional arguments, because b could be one.
enum class Several {
  kAgain,  // -x a -x b
  kWords,  // -x a -x b, or -x a b
  kCommas  // -x a -x b, or -x a b, or -x a,b
};

struct Option {
  std::string name;  // "--output", or "FILE" for an argument
  // Whether `-h` lists the option. `--help` lists all options.
  HelpNeed need = HelpNeed::kSeldom;
  Destination to;
  // The placeholder of the value: "FILE", "N", "json|text".
  std::string value = {};
  std::string help;  // lower case, without a final period
  char letter = 0;   // 'o' if `-o` is a short form, else 0
  bool required = false;
  bool checked = false;  // whether only Choices() are accepted
  Several several = Several::kAgain;
  // Returns the completions of the value, in place of Choices(). Some lists
  // take long to make, so it is called only when completions are written.
  std::function<Strings()> words = {};
  // The heading of the option in help. It is empty for the command's own
  // options.
  std::string group = {};

  bool IsArgument() const { return name.front() != '-'; }
  bool IsFlag() const { return std::holds_alternative<bool*>(to); }
  bool IsList() const { return std::holds_alternative<Strings*>(to); }
  // Returns whether the value is a path.
  bool TakesFile() const;
  // Returns the values of a placeholder that lists them, such as "json|text".
  // Returns an empty list for other placeholders, such as "FILE|AXES".
  Strings Choices() const;
};

using Options = std::vector<Option>;

// Each returns a function for Option::words: one that returns this list, or one
// that calls `names` when completions are written.
std::function<Strings()> Words(Strings words);
std::function<Strings()> Words(std::vector<std::string_view> (*names)());

// Returns whether an option has another value than the same option has in
// `usual`, which stores the defaults. An integer of a Bounded option is never
// reported.
bool IsGiven(const Option& option, const Option& usual);

void Append(Options& options, Options more);

// Returns the option `-o FILE`, which names the output of a command.
Option OutputOption(
    std::string* to,
    std::string help = "file to write the result to (default: stdout)");

// Returns the options with `heading` set for those that have no heading.
Options Under(std::string_view heading, Options options);

// Splits each value at commas and spaces: the value "a,b c" gives the three
// values a, b and c.
Strings SplitList(const Strings& given);

enum ExitStatus : int { kDone = 0, kFound = 1, kFailed = 2 };

class ProgressLine;

// Options of every command.
struct Common {
  // Set by -h and --help. No command reads it, because the parser handles them.
  bool help = false;
  bool quiet = false;
  std::string color = "auto";     // auto | always | never
  std::string format = "text";    // output format of the command's result
  int threads = 0;                // 0: one per core
  CommandLine command_line = {};  // the arguments of this run
  // The line that shows the progress of this run; null if none is drawn.
  ProgressLine* progress = nullptr;
};

// Runs a command and returns its exit status. The caller, main, reports the
// findings that the command adds.
using Run = std::function<int(const Common& common, Findings& findings)>;

// The options of a command and the function that runs the command. `run` owns
// the variables in which the values of the options are stored.
struct Declared {
  Options options;
  Run run;
};

template <class Flags>
Declared Declare(Options (*options)(Flags&),
                 int (*run)(const Flags&, const Common&, Findings&)) {
  auto flags = std::make_shared<Flags>();
  Options filled = options(*flags);
  return {std::move(filled),
          [flags, run](const Common& common, Findings& findings) {
            return run(*flags, common, findings);
          }};
}

// Describes a command. Its texts are its page in texts/commands. The build
// makes cli/commands.h from the pages: it declares a function for each command,
// such as DeclareVerifyStep for `verify step`, which the file with the
// command's name defines.
struct Command {
  // The name has one word, or two for a subcommand.
  std::string_view name;
  std::string_view summary;  // one line, lower case, for `shardc --help`
  std::string_view about;    // the text for the manual
  std::string_view example;  // example command lines for `--help`
  // Values of `--format`; empty if the command prints no result.
  std::string_view formats;  // "text|json"
  // The heading in `shardc --help`; empty for a name of two words.
  std::string_view group;
  Declared (*declare)();
};

// Returns all commands in the order of `shardc --help`.
std::span<const Command> Commands();

// Returns all options of a command: its own options, then the options that
// every command has, with --help last.
Options WithCommon(Options own, const Command& command, Common& common);

std::string DescribeCommands();

// The build generates the tables that these functions return, with the entries
// sorted by file name. EmbeddedExamples() returns the files of the projects of
// `shardc example`, as `NAME:FILE`.
std::span<const EmbeddedFile> EmbeddedExamples();
// Returns the completion scripts. Each entry is named after its shell, such as
// `bash`.
std::span<const EmbeddedFile> EmbeddedCompletions();
// Returns a single file: a table of the linked libraries with the columns name,
// version and licence.
std::span<const EmbeddedFile> EmbeddedLibraries();

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMAND_H_
