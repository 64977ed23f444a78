// Directory: cli. It has the function main, a file for each command, and the
// exit codes. Only parser.cc uses CLI11.
// Its files include headers of these directories: source, model, devices,
// parse, stored, hlo, importers/rules, match, match/proof, families, resolve,
// legalize, program, schedule, step, plan, plan/difference, lint/analysis,
// lint/rules, lint, checkpoint, target, exec/machine, exec/operations, eval,
// verify/cases, verify, verify/step, verify/program, cost, suggest, search,
// audit, kv, picture, emit, emit/findings, emit/verify, emit/exports,
// emit/plans, emit/costs, emit/audits, emit/kv, emit/pictures, emit/schedules,
// emit/programs, emit/report, lsp.
#ifndef SHARDC_CLI_COMMAND_H_
#define SHARDC_CLI_COMMAND_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cli/command_line.h"
#include "cli/option.h"
#include "source/finding.h"

namespace shardc::cli {

enum ExitStatus : int { kDone = 0, kFound = 1, kFailed = 2 };

// Options of every command.
struct Common {
  // Set by --help. No command reads it, because the parser handles --help.
  bool help = false;
  bool quiet = false;
  std::string color = "auto";     // auto | always | never
  std::string format = "text";    // output format of the command's result
  int threads = 0;                // 0: one per core
  CommandLine command_line = {};  // the arguments of this run
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
  Declared (*declare)();
};

// Returns all commands in the order of `shardc --help`.
std::span<const Command> Commands();

// Returns all options of a command: its own options, then the options that
// every command has, with --help last.
Options WithCommon(Options own, const Command& command, Common& common);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMAND_H_
