// The program: a clean process, the arguments, one command, its findings.
// A closed stdout is opened on /dev/null, so that no file gets its number 1
// and the report with it. Memory that ends is told where it ends: what would
// have to be done on the way back from there might need some.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "source/file_sink.h"
#include "source/memory.h"
#include "source/unfinished.h"

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

void Say(std::string_view text) {
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

// Files that were there stand as they were, and what a checkpoint's command
// has completed is taken up when it is run again.
[[noreturn]] void EndWithoutMemory() {
  RemoveUnfinished();
  Say("error: there is not enough memory\n"
      "  = help: give it more, or fewer parameters, devices or threads at a "
      "time\n");
  ::_exit(kFailed);
}

// Before anything else, as other files' constants take memory too.
[[gnu::constructor(101)]] void WatchMemory() {
  std::set_new_handler(EndWithoutMemory);
}

int Main(int argc, char** argv) {
  KeepFreedMemory();
  KeepStandardStreams();
  const InterruptNotice interrupts("");
  if (argc < 2) {  // in a script a command's name was lost: no success
    WriteAll(STDERR_FILENO, QuickStart());
    return kFailed;
  }
  Common common;
  Findings findings;
  int status = kFailed;
  if (const auto parsed = ParseArguments(argc, argv, common, findings)) {
    if (parsed->run != nullptr) {
      status = parsed->run(common, findings);
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
    shardc::cli::EndWithoutMemory();  // more than there could ever be
  } catch (const std::exception&) {
    shardc::cli::Say(
        "error: shardc cannot go on, for a fault of its own\n"
        "  = help: report it with the command and its files\n");
    return shardc::cli::kFailed;
  }
}
