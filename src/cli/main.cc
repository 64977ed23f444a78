// The program: a clean process, the arguments, one command, its findings.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>

#include "cli/command.h"
#include "cli/output.h"
#include "source/wording.h"

namespace shardc::cli {
namespace {

// A closed stdout would give its number to the next file opened, and the
// report would land in it.
void KeepStandardStreams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) == -1) {
      open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
    }
  }
  // Failed writes are then errors that can be told.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

// The first word that is no flag: what was meant as the command.
std::string CommandWord(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '-') return argv[i];
  }
  return {};
}

bool IsCommand(std::string_view word) {
  for (const Command& command : Commands()) {
    if (command.name == word) return true;
  }
  return false;
}

void UnknownCommand(const std::string& word, Findings& findings) {
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.emplace_back(command.name);
  const auto near = Nearest(word, names);
  findings.Add(
      code::kUsage, {},
      word.empty() ? "no command is given" : "`" + word + "` is not a command",
      near ? "did you mean `" + *near + "`?"
           : "`shardc --help` lists the commands");
}

int Main(int argc, char** argv) {
  KeepStandardStreams();
  CLI::App app;
  Common common;
  std::vector<std::pair<CLI::App*, Run>> runs;
  DeclareAll(app, common, runs);
  Findings findings;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    const std::string word = CommandWord(argc, argv);
    if (!word.empty() && !IsCommand(word)) {
      UnknownCommand(word, findings);
      Report(findings, common);
      return kFailed;
    }
    std::ostringstream out;
    app.exit(asked, out, out);
    return PutOut(out.str(), findings) ? kDone : kFailed;
  } catch (const CLI::ParseError& error) {
    const std::string word = CommandWord(argc, argv);
    if (!IsCommand(word)) {
      UnknownCommand(word, findings);
    } else {
      findings.Add(code::kUsage, {}, error.what(),
                   "`shardc " + word + " --help` shows its options");
    }
    Report(findings, common);
    return kFailed;
  }
  int status = kFailed;
  for (const auto& [command, run] : runs) {
    if (command->parsed()) status = run(common, findings);
  }
  Report(findings, common);
  return status;
}

}  // namespace
}  // namespace shardc::cli

int main(int argc, char** argv) {
  try {
    return shardc::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    // Out of memory and the like: nothing was written.
    const std::string text =
        "error: shardc cannot go on: " + std::string(error.what()) + "\n";
    [[maybe_unused]] const ssize_t written = write(2, text.data(), text.size());
    return shardc::cli::kFailed;
  }
}
