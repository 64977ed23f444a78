#include "cli/interrupt.h"

#include <unistd.h>

#include <string_view>
#include <utility>

#include "source/unfinished.h"

namespace shardc::cli {
namespace {

// The text that the signal handler prints. It is composed before the signal,
// because a signal handler must not allocate memory.
std::string_view interrupt_text;

void PrintInterrupt(int signal) {
  RemoveUnfinished();
  (void)!::write(STDERR_FILENO, interrupt_text.data(), interrupt_text.size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

InterruptMessage::InterruptMessage(std::string text)
    : text_(std::move(text)), text_before_(interrupt_text) {
  interrupt_text = text_;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    before_[i] = std::signal(kSignals[i], PrintInterrupt);
    // A signal that the caller ignores, as nohup ignores SIGHUP, remains
    // ignored.
    if (before_[i] == SIG_IGN) std::signal(kSignals[i], SIG_IGN);
  }
}

InterruptMessage::~InterruptMessage() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    std::signal(kSignals[i], before_[i]);
  }
  interrupt_text = text_before_;
}

}  // namespace shardc::cli
