// The program: a clean process, the arguments, one command, its findings.
// A closed stdout is opened on /dev/null, so that no file gets its number 1
// and the report with it.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <string>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "source/file_sink.h"

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

int Main(int argc, char** argv) {
  KeepStandardStreams();
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
  } catch (const std::exception& error) {
    // Out of memory and the like: nothing was written.
    const std::string text =
        "error: shardc cannot go on: " + std::string(error.what()) + "\n";
    [[maybe_unused]] const ssize_t written = write(2, text.data(), text.size());
    return shardc::cli::kFailed;
  }
}
