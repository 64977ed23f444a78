// Handles interrupts: removes incomplete files, and prints a message that a
// long command can set.
#ifndef SHARDC_CLI_INTERRUPT_H_
#define SHARDC_CLI_INTERRUPT_H_

#include <array>
#include <csignal>
#include <string>
#include <string_view>

namespace shardc::cli {

// While an object exists, SIGINT, SIGTERM and SIGHUP remove incomplete files
// and print `text` on standard error. The process then ends by the signal, as
// its caller expects. A signal that the process already ignored remains
// ignored. Objects may be nested.
class InterruptMessage {
 public:
  explicit InterruptMessage(std::string text);
  ~InterruptMessage();
  InterruptMessage(const InterruptMessage&) = delete;
  InterruptMessage& operator=(const InterruptMessage&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::string text_;
  std::string_view text_before_;
  std::array<void (*)(int), kSignals.size()> before_{};
};

}  // namespace shardc::cli

#endif  // SHARDC_CLI_INTERRUPT_H_
