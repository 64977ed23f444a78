// Room: cli. main, one file per command, exit codes. Knows every room;
// nothing includes it. The only room that sees CLI11.
#ifndef SHARDC_CLI_COMMAND_H_
#define SHARDC_CLI_COMMAND_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source/finding.h"

namespace CLI {
class App;
}

namespace shardc::cli {

enum ExitStatus : int { kDone = 0, kFound = 1, kFailed = 2 };

// Flags that every command has.
struct Common {
  bool quiet = false;
  std::string color = "auto";   // auto | always | never
  std::string format = "text";  // of results, where the command prints one
  int threads = 0;              // 0: one per core
};

// What a command runs; gathers its errors, which main reports.
using Run = std::function<int(const Common& common, Findings& findings)>;

// A command declares its options on `app` (which lives as long as main) and
// returns what runs it: one file per command, one line in table.cc.
struct Command {
  std::string_view name;
  std::string_view summary;  // one line, lower case, for `shardc --help`
  std::string_view example;  // runnable lines for its own `--help`
  Run (*declare)(CLI::App& app);
  // The formats that `--format` takes; empty: the command prints no result.
  std::string_view formats = "";  // "text json"
};

std::span<const Command> Commands();

// The whole argument parser with every command; `common` is filled by it.
void DeclareAll(CLI::App& app, Common& common,
                std::vector<std::pair<CLI::App*, Run>>& runs);

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMAND_H_
