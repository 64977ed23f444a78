// Runs the program: sets up the process, parses the arguments, runs one command
// and reports its findings.
//
// If stdout is closed, it is opened on /dev/null. Otherwise the next file to be
// opened would get stdout's descriptor, and the result would be written into
// that file. /dev/null is opened for reading only. Writing the result then
// fails, and the user learns that it was lost.
//
// If memory runs out, the process reports that and exits at once, because
// unwinding may allocate memory.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "cli/progress.h"
#include "source/process.h"
#include "source/sink.h"

namespace shardc::cli {
namespace {

// Opens closed standard streams on /dev/null, so that no other file gets their
// descriptors. Writing a result to a closed stdout fails, and messages to a
// closed stderr are dropped.
void KeepStandardStreams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) == -1) {
      open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
  // SIGPIPE is ignored, so that writing to a closed pipe returns an error and
  // does not end the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void WriteToStandardError(std::string_view text) {
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

// Removes incomplete files and ends the process with an error. Complete pieces
// of a checkpoint are kept. The next run of the command uses them.
[[noreturn]] void EndWithoutMemory() {
  RemoveUnfinished();
  ReportNoMemory();
  ::_exit(kFailed);
}

// Installs the handler before static initialisers run, because static
// initialisers allocate memory too.
[[gnu::constructor(101)]] void WatchMemory() {
  std::set_new_handler(EndWithoutMemory);
}

int Main(int argc, char** argv) {
  KeepFreedMemory();
  KeepStandardStreams();
  const InterruptMessage interrupts("");
  // A command line without arguments is an error. In a script, the variable
  // that should contain the command may be unset.
  if (argc < 2) {
    WriteAll(STDERR_FILENO, QuickStart());
    return kFailed;
  }
  Common common;
  common.command_line = CommandLine(argc, argv);
  Findings findings;
  int status = kFailed;
  if (const auto parsed = ParseArguments(argc, argv, common, findings)) {
    if (parsed->run != nullptr) {
      ProgressLine progress(common, "shardc " + parsed->command);
      common.progress = &progress;
      status = parsed->run(common, findings);
      common.progress = nullptr;
      if (status == kFailed && findings.HasErrors()) {
        NameMistakenFiles(parsed->files, parsed->options, findings);
      }
    } else if (PutOut(parsed->text, findings)) {
      return kDone;
    }
  }
  Report(findings, common);
  return status;
}

}  // namespace
}  // namespace shardc::cli

int main(int argc, char** argv) {
  try {
    return shardc::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    shardc::cli::EndWithoutMemory();
  } catch (const std::length_error&) {
    // The requested size of a container is larger than any memory.
    shardc::cli::EndWithoutMemory();
  } catch (const std::exception&) {
    shardc::cli::WriteToStandardError(
        "error: internal error in shardc\n  = help: report it with the command "
        "and its files\n");
    return shardc::cli::kFailed;
  }
}
