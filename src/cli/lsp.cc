// `shardc lsp`: the language server over standard input and output. One thread
// reads and handles the messages, and runs a check when no more messages
// arrive. If checks are slow, the server first waits for a pause in the input,
// so that a check does not delay the response to the next key. If the input
// never pauses, a check runs one second after the first unchecked edit:
//
//   checks take 20 ms   ->  an edit is checked at once
//   checks take 200 ms  ->  after 40 ms without input
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/lsp_checker.h"
#include "cli/output.h"
#include "cli/version.h"
#include "lsp/server.h"
#include "source/file_sink.h"
#include "source/index.h"

namespace shardc::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPause{40};   // pause in the input before a slow check
constexpr milliseconds kQuick{100};  // a check that takes longer is slow
// The longest time that an edit stays unchecked.
constexpr milliseconds kLongest{1000};

struct LspFlags {
  bool stdio = false, allow_outside = false;
};

// Waits for input bytes and sets `out` to them. Waits at most `wait`, or
// without a limit if `wait` is negative. Returns false if no bytes arrive, and
// nullopt at the end of the stream or after an error.
std::optional<bool> ReadSome(milliseconds wait, std::string& out) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const int ready = ::poll(&input, 1, static_cast<int>(wait.count()));
  if (ready < 0 && errno != EINTR) return std::nullopt;
  if (ready <= 0) return false;
  constexpr size_t kPiece = 65536;
  out.resize(kPiece);
  const ssize_t got = ::read(STDIN_FILENO, out.data(), out.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return false;
  if (got <= 0) return std::nullopt;
  out.resize(AsIndex(got));
  return true;
}

class Loop {
 public:
  Loop(const LspFlags& flags, const Common& common)
      : checker_(common, flags.allow_outside),
        server_(checker_, std::string(kVersion)) {}

  int Run(Findings& findings) {
    std::string bytes;
    for (;;) {
      const auto got = ReadSome(Wait(), bytes);
      const bool quiet = got && !*got;
      if (got && *got) {
        server_.Receive(bytes);
        last_ = Clock::now();
      }
      while (server_.Step()) {
        if (!Send(findings)) return kFailed;
      }
      if (server_.exit_status()) return *server_.exit_status();
      if (!got) return server_.StatusAtEnd();
      Check(quiet);
      if (!Send(findings)) return kFailed;
    }
  }

 private:
  milliseconds Pause() const {
    return took_ < kQuick ? milliseconds(0) : kPause;
  }

  milliseconds Wait() const {
    if (!server_.HasEdits()) return milliseconds(-1);
    const auto left = std::chrono::duration_cast<milliseconds>(last_ + Pause() -
                                                               Clock::now());
    return std::max(milliseconds(0), left + milliseconds(1));
  }

  // Runs a check if one is due. `quiet` is true if the last wait received no
  // bytes.
  void Check(bool quiet) {
    if (!server_.HasEdits()) {
      first_.reset();
      return;
    }
    const auto now = Clock::now();
    if (!first_) first_ = now;
    const bool paused = quiet && now >= last_ + Pause();
    if (!paused && now < *first_ + kLongest) return;
    server_.CheckNow();
    took_ = Clock::now() - now;
    first_.reset();
  }

  bool Send(Findings& findings) {
    const std::string output = server_.TakeOutput();
    if (output.empty() || WriteAll(STDOUT_FILENO, output)) return true;
    findings.Add(code::kWrite, {}, "the client does not read the output");
    return false;
  }

  LspChecker checker_;
  lsp::Server server_;
  Clock::time_point last_ = Clock::now();   // time of the last received bytes
  std::optional<Clock::time_point> first_;  // time of the first unchecked edit
  // The duration of the last check. The initial value is less than kQuick, so
  // the first check does not wait.
  Clock::duration took_ = kPause;
};

int RunLsp(const LspFlags& flags, const Common& common, Findings& findings) {
  return Loop(flags, common).Run(findings);
}

Options OptionsOf(LspFlags& flags) {
  return {{.name = "--stdio",
           .to = &flags.stdio,
           .help = "use standard input and output (always on; for editors that "
                   "pass it)"},
          {.name = "--allow-outside",
           .to = &flags.allow_outside,
           .help = "let a project name files outside its repository"}};
}

}  // namespace

Declared DeclareLsp() { return Declare(OptionsOf, RunLsp); }

}  // namespace shardc::cli
