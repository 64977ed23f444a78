// Room: cli. main, one file per command, exit codes. Knows every room;
// nothing includes it. The only room that sees CLI11.
#ifndef SHARDC_CLI_COMMAND_H_
#define SHARDC_CLI_COMMAND_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/project.h"
#include "plan/compile.h"
#include "source/finding.h"

namespace CLI {
class App;
}

namespace shardc::cli {

enum ExitStatus : int { kDone = 0, kFound = 1, kFailed = 2 };

// Flags that every command has.
struct Common {
  bool quiet = false;
  std::string color = "auto";  // auto | always | never
  std::string format = "text";
  int threads = 0;  // 0: one per core
};

// A command declares its options on `app` and returns what runs it. One file
// per command, one line in table.cc.
struct Command {
  std::string_view name;
  std::string_view summary;  // one line for `shardc --help`
  std::string_view example;  // one runnable line for its own `--help`
  std::function<int()> (*declare)(CLI::App& app, Common& common);
};
std::span<const Command> Commands();

// Prints findings on stderr in the asked format and says whether any is an
// error. Sorted.
bool Report(Findings& findings, const Common& common);

// Results on stdout: flushed and checked, so that a full disk is an error.
bool PutOut(std::string_view text, Findings& findings);

// --mesh, --rules, --manifest and so on, or --target of a project.
struct Inputs {
  std::string mesh;
  std::string devices;
  std::vector<std::string> rules;
  std::string manifest;
  std::string model;
  std::string attention;
  std::vector<std::string> modes;
  std::string memory;
  std::string target;
  std::string project;
  bool no_project = false;
  bool header_only = false;
  std::string stdin_filename;
  std::string unmatched, illegal, min_size, compat;
};

}  // namespace shardc::cli

#endif  // SHARDC_CLI_COMMAND_H_
